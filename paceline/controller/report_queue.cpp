#include "paceline/controller/report_queue.h"

#include <algorithm>

namespace paceline::controller {

using namespace policy;

void ReportQueue::add(GroupReport group, Attempt attempt, Time now) {
  const bool waits = !group.parts.empty();
  entries_.push_back({std::move(group), attempt, to_seconds(now), "", waits});
}

void ReportQueue::settle(int64_t report, const std::string& checkpoint) {
  for (Entry& entry : entries_) {
    if (entry.group.report != report) continue;
    entry.checkpoint = checkpoint;
    entry.waits = false;
  }
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

arrow::Result<std::vector<ReportQueue::Entry>> ReportQueue::write() {
  std::vector<Entry> written;
  while (!entries_.empty() && !entries_.front().waits) {
    Entry entry = std::move(entries_.front());
    entries_.pop_front();
    for (size_t rank = 0; rank < entry.group.metrics.size(); ++rank) {
      if (!entry.group.metrics[rank]) continue;
      track::HistoryRow row{.report = entry.group.report,
                            .attempt = entry.attempt.value,
                            .rank = static_cast<int64_t>(rank),
                            .time = entry.time,
                            .checkpoint = entry.checkpoint,
                            .metrics = *entry.group.metrics[rank]};
      if (rank == 0 && !entry.group.reduced.empty()) row.reduced = *entry.group.reduced[0];
      ARROW_RETURN_NOT_OK(writer_.append(row));
    }
    if (!unflushed_since_) unflushed_since_ = from_seconds(entry.time);
    if (!entry.checkpoint.empty()) ARROW_RETURN_NOT_OK(flush());
    written.push_back(std::move(entry));
  }
  return written;
}

arrow::Status ReportQueue::flush() {
  unflushed_since_.reset();
  return writer_.flush();
}

}  // namespace paceline::controller
