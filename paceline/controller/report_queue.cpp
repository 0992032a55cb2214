#include "paceline/controller/report_queue.h"

#include <algorithm>
#include <utility>

#include "paceline/core/bytes_text.h"
#include "paceline/rpc/report_bytes.h"

namespace paceline::controller {

using namespace policy;

bool ReportQueue::note(int64_t rank, const rpc::Report& report, Attempt attempt, Time now) {
  const bool later = rank == 0 && (!report.reduce.empty() || !shown_later_.empty());
  if (later) shown_later_.emplace(report.index, report.metrics);
  append({.report = report.index,
          .attempt = attempt.value,
          .rank = rank,
          .time = to_seconds(now),
          .later = later,
          .metrics = report.metrics});
  if (std::ssize(shown_later_) > kMostAhead) {  // the book has given it up
    const auto oldest = shown_later_.extract(shown_later_.begin());
    show(oldest.key(), oldest.mapped(), attempt, to_seconds(now));
  }
  return rank == 0 && !later;
}

std::optional<rpc::Report> ReportQueue::close_group(Attempt attempt, Time now) {
  std::optional<rpc::Report> last;
  for (const auto& [report, metrics] : std::exchange(shown_later_, {})) {
    show(report, metrics, attempt, to_seconds(now));
    last = {.index = report, .metrics = metrics};
  }
  return last;
}

// The group's line of what rank 0's said that it comes later.
void ReportQueue::show(int64_t report, const Json& metrics, Attempt attempt, double time) {
  append({.report = report, .attempt = attempt.value, .rank = track::kWholeGroup, .time = time, .reduced = metrics});
}

bool ReportQueue::add(GroupReport group, Attempt attempt, Time now) {
  const bool is_shown = shown_later_.erase(group.report) > 0;
  if (is_shown) {
    show(group.report, group.shown()[0].value_or(Json::object()), attempt, to_seconds(now));
  }
  const bool waits = group.hands_over();
  if (!waits && !has_takers_) return is_shown;
  int64_t bytes = 0;
  for (const std::optional<Json>& metrics : group.metrics) bytes += metrics ? rpc::bytes_of(*metrics) : 0;
  bytes_ += bytes;
  entries_.push_back({std::move(group), attempt, to_seconds(now), "", waits, bytes});
  return is_shown;
}

void ReportQueue::set_parts(int64_t report, std::vector<checkpoint::StagedPart> parts) {
  const auto found = std::ranges::find(entries_, report, [](const Entry& entry) { return entry.group.report; });
  if (found != entries_.end()) found->group.parts = std::move(parts);
}

arrow::Status ReportQueue::settle(int64_t report, const std::string& checkpoint, Time now) {
  for (Entry& entry : entries_) {
    if (entry.group.report != report) continue;
    entry.checkpoint = checkpoint;
    entry.waits = false;
    if (checkpoint.empty()) continue;
    append({.report = report,
            .attempt = entry.attempt.value,
            .rank = track::kWholeGroup,
            .time = to_seconds(now),
            .checkpoint = checkpoint,
            .metrics = entry.group.shown()[0].value_or(Json::object())});
    ARROW_RETURN_NOT_OK(flush());
  }
  return arrow::Status::OK();
}

void ReportQueue::restore(const PublishedCheckpoint& checkpoint, Attempt attempt) {
  append({.report = checkpoint.report,
          .attempt = attempt.value,
          .rank = track::kWholeGroup,
          .time = checkpoint.time,
          .checkpoint = checkpoint.name,
          .metrics = checkpoint.metrics});
}

void ReportQueue::settle_all() {
  for (Entry& entry : entries_) entry.waits = false;
}

bool ReportQueue::waits_up_to(int64_t report) const {
  return std::ranges::any_of(entries_,
                             [report](const Entry& entry) { return entry.waits && entry.group.report <= report; });
}

const ReportQueue::Entry* ReportQueue::find(int64_t report) const {
  const auto found = std::ranges::find_if(
      entries_, [report](const Entry& entry) { return entry.group.report == report && entry.waits; });
  return found == entries_.end() ? nullptr : &*found;
}

std::vector<ReportQueue::Entry> ReportQueue::take() {
  std::vector<Entry> taken;
  while (!entries_.empty() && !entries_.front().waits) {
    bytes_ -= entries_.front().bytes;
    taken.push_back(std::move(entries_.front()));
    entries_.pop_front();
  }
  return taken;
}

void ReportQueue::append(const track::HistoryRow& row) {
  if (!unflushed_since_) unflushed_since_ = from_seconds(row.time);
  history_->append(row);
}

arrow::Status ReportQueue::flush() {
  unflushed_since_.reset();
  return history_->flush();
}

std::function<arrow::Status()> ReportQueue::syncing() {
  unflushed_since_.reset();
  return history_->syncing();
}

std::string ReportQueue::held_up_by() const {
  if (const int64_t bytes = history_->waiting_bytes(); bytes > kMostUnwritten) {
    return "the disk: " + bytes_text(bytes) + " of metrics wait to be written";
  }
  const auto count = std::ssize(entries_);
  if (count <= kMostWaiting && (bytes_ <= kMostWaitingBytes || count <= 1)) return "";
  return "the checkpoint of report " + std::to_string(entries_.front().group.report) +
         ", which is on its way: " + std::to_string(count - 1) +
         " reports wait behind it for the callbacks, which are told in order";
}

}  // namespace paceline::controller
