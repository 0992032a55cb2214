#include "paceline/policy/report_book.h"

#include <algorithm>
#include <utility>

#include "paceline/policy/failure_text.h"

namespace paceline::policy {
ReportBook::ReportBook(int64_t world_size, int64_t first_report)
    : world_size_(world_size),
      first_report_(first_report),
      base_(first_report),
      counts_(static_cast<size_t>(world_size), 0),
      finished_(static_cast<size_t>(world_size), false) {}

arrow::Result<std::vector<GroupReport>> ReportBook::add(int64_t rank, const rpc::Report& report) {
  std::vector<GroupReport> completed;
  if (refused_) return completed;
  if (rank < 0 || rank >= world_size_) return arrow::Status::Invalid("report of rank ", rank, " of ", world_size_);
  int64_t& count = counts_[static_cast<size_t>(rank)];
  if (report.index != first_report_ + count) {
    return arrow::Status::Invalid("rank ", rank, " sent report ", report.index, "; wanted ", first_report_ + count);
  }
  ++count;
  if (report.index < base_) {
    const arrow::Status late = take_late(rank, report);
    refused_ = !late.ok();
    ARROW_RETURN_NOT_OK(late);
    return completed;
  }
  const auto position = static_cast<size_t>(report.index - base_);
  if (position == pending_.size()) {
    pending_.emplace_back();
    pending_.back().group.report = report.index;
    pending_.back().group.metrics.resize(static_cast<size_t>(world_size_));
  }
  refused_ = true;  // until all checks have passed
  ARROW_RETURN_NOT_OK(enter(pending_[position], rank, report));
  if (lowest_finish_ >= 0 && count > lowest_finish_) ARROW_RETURN_NOT_OK(check_counts());
  while (!pending_.empty() && pending_.front().arrived == world_size_) {
    ARROW_ASSIGN_OR_RAISE(GroupReport group, complete(std::move(pending_.front())));
    pending_.pop_front();
    ++base_;
    if (group.hands_over()) handed_over_[group.report] = {group.parts, group.uploading};
    completed.push_back(std::move(group));
  }
  if (std::ssize(pending_) > kMostAhead) ARROW_RETURN_NOT_OK(give_up_oldest());
  refused_ = false;
  note_unequal();
  return completed;
}

void ReportBook::add_upload(int64_t rank, const rpc::CheckpointUploaded& upload) {
  const auto enter = [&](auto& files) {
    if (files.uploading.erase(rank) > 0 && !upload.staged.empty()) files.parts.push_back({rank, upload.staged});
  };
  const int64_t position = upload.index - base_;
  if (position >= 0 && position < std::ssize(pending_)) return enter(pending_[static_cast<size_t>(position)].group);
  const auto complete = handed_over_.find(upload.index);
  if (complete != handed_over_.end()) enter(complete->second);
}

std::vector<ReadyCheckpoint> ReportBook::take_ready() {
  std::vector<ReadyCheckpoint> ready;
  while (!handed_over_.empty() && handed_over_.begin()->second.uploading.empty()) {
    auto first = handed_over_.extract(handed_over_.begin());
    std::ranges::sort(first.mapped().parts, {}, &checkpoint::StagedPart::rank);
    ready.push_back({first.key(), std::move(first.mapped().parts)});
  }
  return ready;
}

std::vector<int64_t> ReportBook::unready() const {
  std::vector<int64_t> reports;
  for (const auto& [report, files] : handed_over_) reports.push_back(report);
  return reports;
}

arrow::Status ReportBook::give_up_oldest() {
  const Pending& oldest = pending_.front();
  if (oldest.has_checkpoint) {
    return arrow::Status::Invalid(counts_text(), ": the checkpoint of report ", oldest.group.report,
                                  " waits for reports that do not come, and ", kMostAhead,
                                  " later ones with it; a checkpoint is published when every rank has made its report: "
                                  "call report() equally often on every rank");
  }
  pending_.pop_front();
  ++base_;
  return arrow::Status::OK();
}

// A report that was given up.
arrow::Status ReportBook::take_late(int64_t rank, const rpc::Report& report) const {
  if (!report.has_checkpoint) return arrow::Status::OK();
  return arrow::Status::Invalid("rank ", rank, " hands over a checkpoint with report ", report.index, ", but ",
                                counts_text(), ": the others are more than ", kMostAhead,
                                " reports ahead, and it cannot be put together any more; call report() equally often "
                                "on every rank");
}

const ReportBook::Pending* ReportBook::first_with_checkpoint() const {
  const auto found = std::ranges::find_if(pending_, &Pending::has_checkpoint);
  return found == pending_.end() ? nullptr : &*found;
}

// "rank 0 has made 12 reports, ranks 1-3 have made 2".
std::string ReportBook::counts_text() const {
  const auto [low, high] = std::ranges::minmax(counts_);
  const auto with = [this](int64_t count) {
    std::vector<int64_t> ranks;
    for (int64_t rank = 0; rank < world_size_; ++rank) {
      if (counts_[static_cast<size_t>(rank)] == count) ranks.push_back(rank);
    }
    return ranks_text(ranks) + (ranks.size() == 1 ? " has made " : " have made ") + std::to_string(count);
  };
  return with(high) + (high == 1 ? " report, " : " reports, ") + with(low);
}

// Looks at counts of ranks only when there is something to say: a report costs the same whatever the world's size.
void ReportBook::note_unequal() {
  if (has_warned_ || pending_.empty()) return;
  const bool returned = lowest_finish_ >= 0 && pending_.back().group.report >= first_report_ + lowest_finish_;
  const bool is_far = std::ssize(pending_) > kFarAhead;
  const bool may_wait = std::ssize(pending_) > kAheadOfACheckpoint;
  if (!returned && !is_far && !may_wait) return;
  const Pending* waiting = first_with_checkpoint();
  const bool waits = waiting != nullptr && pending_.back().group.report - waiting->group.report >= kAheadOfACheckpoint;
  if (!returned && !is_far && !waits) return;
  has_warned_ = true;
  warning_ = counts_text();
  if (waiting != nullptr) {
    warning_ += ": the checkpoint of report " + std::to_string(waiting->group.report) +
                " is published when every rank has made that report and uploaded its files";
  } else {
    warning_ += ": the metrics are kept, but callbacks, and `reduce`, take a report that every rank has made";
  }
  warning_ += "; call report() equally often on every rank";
}

std::string ReportBook::take_warning() {
  return std::exchange(warning_, "");
}

arrow::Status ReportBook::enter(Pending& pending, int64_t rank, const rpc::Report& report) {
  if (pending.arrived == 0) {
    pending.reduce = report.reduce;
    pending.first_rank = rank;
  } else if (pending.reduce != report.reduce) {
    const auto named = [](const std::string& reduce) { return reduce.empty() ? "none" : "\"" + reduce + "\""; };
    return arrow::Status::Invalid("report ", report.index, " is reduced differently by the ranks: rank ",
                                  pending.first_rank, " says ", named(pending.reduce), ", rank ", rank, " says ",
                                  named(report.reduce), "; every rank must pass the same `reduce`");
  }
  if (!report.folder_name.empty() && (pending.group.folder_name.empty() || rank < pending.naming_rank)) {
    pending.group.folder_name = report.folder_name;
    pending.naming_rank = rank;
  }
  if (report.validation && (!pending.group.validation || rank < pending.validating_rank)) {
    pending.group.validation = report.validation;
    pending.validating_rank = rank;
  }
  ++pending.arrived;
  pending.group.metrics[static_cast<size_t>(rank)] = report.metrics;
  pending.has_checkpoint |= report.has_checkpoint;
  if (report.collective_save) pending.collective.push_back(rank);
  if (!report.staged.empty()) pending.group.parts.push_back({rank, report.staged});
  if (report.uploading) pending.group.uploading.insert(rank);
  return arrow::Status::OK();
}

arrow::Result<GroupReport> ReportBook::complete(Pending pending) const {
  GroupReport& group = pending.group;
  if (!pending.collective.empty() && static_cast<int64_t>(pending.collective.size()) < world_size_) {
    std::ranges::sort(pending.collective);
    std::vector<int64_t> missing;
    for (int64_t rank = 0; rank < world_size_; ++rank) {
      if (!std::ranges::binary_search(pending.collective, rank)) missing.push_back(rank);
    }
    return arrow::Status::Invalid("report ", group.report, " has a checkpoint from Checkpoint::save() on ",
                                  ranks_text(pending.collective), " but not on ", ranks_text(missing),
                                  "; save() is collective: every rank must call it and report what it returns");
  }
  std::ranges::sort(group.parts, {}, &checkpoint::StagedPart::rank);
  if (!pending.reduce.empty()) {
    group.reduced = group.metrics;
    reduce_metrics(group.reduced, pending.reduce);
  }
  return std::move(group);
}

arrow::Status ReportBook::finish(int64_t rank) {
  if (refused_ || rank < 0 || rank >= world_size_) return arrow::Status::OK();
  finished_[static_cast<size_t>(rank)] = true;
  const int64_t count = counts_[static_cast<size_t>(rank)];
  lowest_finish_ = lowest_finish_ < 0 ? count : std::min(lowest_finish_, count);
  const arrow::Status status = check_counts();
  refused_ = !status.ok();
  if (status.ok()) note_unequal();
  return status;
}

// A checkpoint that waits for a rank which has finished would wait for ever. Surplus metrics are no error.
arrow::Status ReportBook::check_counts() const {
  const int64_t first = std::max(first_report_ + lowest_finish_, base_);  // the first that the rank will not make
  const auto waits = std::find_if(pending_.begin() + std::min<int64_t>(first - base_, std::ssize(pending_)),
                                  pending_.end(), [](const Pending& pending) { return pending.has_checkpoint; });
  if (waits == pending_.end()) return arrow::Status::OK();
  const int64_t wanted = waits->group.report - first_report_ + 1;
  std::map<int64_t, std::vector<int64_t>> by_count;
  for (int64_t rank = 0; rank < world_size_; ++rank) {
    const int64_t count = counts_[static_cast<size_t>(rank)];
    if (finished_[static_cast<size_t>(rank)] || count >= wanted) by_count[count].push_back(rank);
  }
  std::string text;
  for (const auto& [count, ranks] : by_count) {
    text += (text.empty() ? "" : "; ") + ranks_text(ranks) + (count < wanted ? " returned after " : " has made ") +
            std::to_string(count) + (count == 1 ? " report" : " reports");
  }
  return arrow::Status::Invalid("the ranks reported a different number of times, and a checkpoint waits: ", text,
                                ", and report ", wanted,
                                " hands over a checkpoint, which needs every rank's report; "
                                "call report() equally often on every rank");
}

bool ReportBook::is_settled(int64_t report) const {
  for (const auto& [number, files] : handed_over_) {
    if (number <= report && !files.uploading.empty()) return false;
  }
  return report < base_ || (lowest_finish_ >= 0 && report >= first_report_ + lowest_finish_);
}

int64_t ReportBook::last_report(int64_t rank) const {
  const int64_t count = counts_[static_cast<size_t>(rank)];
  return count == 0 ? 0 : first_report_ + count - 1;
}

AwaitedReport ReportBook::awaited_of(int64_t rank, bool is_gone, int64_t awaited_so_far) const {
  const int64_t last = last_report(rank);
  if (last < awaited_so_far) return {.report = -1};
  if (last == 0 || refused_ || is_settled(last)) return {};
  AwaitedReport awaited{.report = last};
  for (const auto& [report, files] : handed_over_) {
    if (report > last) break;
    if (is_gone && files.uploading.contains(rank)) return {.report = -1};
    awaited.has_checkpoint |= !files.uploading.empty();
  }
  for (const Pending& pending : pending_) {
    if (pending.group.report > last) break;
    if (is_gone && pending.group.uploading.contains(rank)) return {.report = -1};
    awaited.has_checkpoint |= pending.has_checkpoint;
  }
  return awaited;
}

}  // namespace paceline::policy
