// ReportBook: puts report k together from each rank's k-th report, for one worker group. Pure: no I/O.
//
// Reports complete in order, because each rank's come in order. A report that a rank has not made when another is
// kMostAhead further is given up: it will not complete, and what it holds is forgotten; with a checkpoint, which would
// be lost, that is an error. A rank may make a report while its files are on their way: the report is complete
// without them, its checkpoint is ready, in the order of the reports, when all have come. Not thread-safe. Report
// numbers are the run's: the first of a group continues those of the group before.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/checkpoint/store.h"
#include "paceline/rpc/messages.h"

namespace paceline::policy {

/// A report that all ranks have made.
struct GroupReport {
  int64_t report = 0;
  /// By rank, as each made it.
  std::vector<std::optional<Json>> metrics;
  /// With `reduce`: by rank, but the numbers are those of the group. Empty without.
  std::vector<std::optional<Json>> reduced;
  /// Name that the lowest rank to give one gave the checkpoint's folder, "" for the report's.
  std::string folder_name;
  /// The validation of the checkpoint that the lowest rank asked for.
  std::optional<ValidationTaskConfig> validation;
  /// What the ranks have staged for a checkpoint so far, and whose files are on their way; both empty when none handed
  /// over files.
  std::vector<checkpoint::StagedPart> parts;
  std::set<int64_t> uploading;

  /// What users are shown, by rank: reduced where report() asked for it.
  const std::vector<std::optional<Json>>& shown() const { return reduced.empty() ? metrics : reduced; }
  /// Whether a checkpoint comes of it, or may.
  bool hands_over() const { return !parts.empty() || !uploading.empty(); }
};

/// A checkpoint of a complete report of which all files have come; none when all that was on its way turned out empty.
struct ReadyCheckpoint {
  int64_t report = 0;
  std::vector<checkpoint::StagedPart> parts;
};

/// What a rank that has failed had reported, and the others are still to make or to hand over.
struct AwaitedReport {
  /// 0 for nothing, -1 where what is awaited cannot come without the rank.
  int64_t report = 0;
  /// Whether a checkpoint comes of it, or of one before it, as far as is known.
  bool has_checkpoint = false;
};

/// So many reports may wait for the slowest rank.
inline constexpr int64_t kMostAhead = 1000;
/// A rank that is so many reports ahead of another is named in a warning; where a checkpoint waits, much sooner.
inline constexpr int64_t kFarAhead = 300;
inline constexpr int64_t kAheadOfACheckpoint = 16;

class ReportBook {
 public:
  /// Of a group of `world_size` ranks whose first report has the number `first_report`.
  ReportBook(int64_t world_size, int64_t first_report);

  /// Enters a rank's next report; gives those that are complete now. Invalid when the ranks' reports do not fit
  /// together (the message names the ranks); the book takes nothing more after that.
  arrow::Result<std::vector<GroupReport>> add(int64_t rank, const rpc::Report& report);
  /// Enters the files of a report that the rank made while they were on their way.
  void add_upload(int64_t rank, const rpc::CheckpointUploaded& upload);
  /// The checkpoints that have become ready, each once, in the order of their reports: none before an earlier one.
  std::vector<ReadyCheckpoint> take_ready();
  /// Complete reports whose checkpoints are not ready.
  std::vector<int64_t> unready() const;
  /// The rank's train loop has returned. Invalid when a checkpoint waits for a report that the rank will not make.
  arrow::Status finish(int64_t rank);
  /// What is to be said, once, when ranks have made different numbers of reports: who, and what waits; "" for nothing.
  std::string take_warning();

  /// Whether every rank has made report `report`, with all files up to it, or it is given up, or one has returned that
  /// will not make it.
  bool is_settled(int64_t report) const;
  /// Number of the rank's last report, 0 for none.
  int64_t last_report(int64_t rank) const;
  /// Of a rank that makes no more reports: its last, while it is not settled and may be. `is_gone`: nor are any files
  /// of it on their way. `awaited_so_far`: the report that others who have failed had made, 0 for none.
  AwaitedReport awaited_of(int64_t rank, bool is_gone, int64_t awaited_so_far = 0) const;

 private:
  // What the ranks hand over for one checkpoint.
  struct Files {
    std::vector<checkpoint::StagedPart> parts;
    std::set<int64_t> uploading;
  };
  struct Pending {
    GroupReport group;
    int64_t arrived = 0;
    std::string reduce;
    int64_t first_rank = 0;
    int64_t naming_rank = 0;
    int64_t validating_rank = 0;
    bool has_checkpoint = false;
    std::vector<int64_t> collective;
  };

  arrow::Status enter(Pending& pending, int64_t rank, const rpc::Report& report);
  arrow::Status check_counts() const;
  arrow::Status give_up_oldest();
  arrow::Status take_late(int64_t rank, const rpc::Report& report) const;
  void note_unequal();
  std::string counts_text() const;
  const Pending* first_with_checkpoint() const;
  arrow::Result<GroupReport> complete(Pending pending) const;

  int64_t world_size_;
  int64_t first_report_;
  int64_t base_;  // number of pending_[0]
  std::deque<Pending> pending_;
  std::map<int64_t, Files> handed_over_;  // of complete reports, until take_ready()
  std::vector<int64_t> counts_;
  std::vector<bool> finished_;
  int64_t lowest_finish_ = -1;  // the fewest reports that a finished rank has made
  bool refused_ = false;
  bool has_warned_ = false;
  std::string warning_;
};

/// Puts the group's numbers into every rank's metrics: `reduce` is "mean", "sum", "min" or "max". Numbers of the same
/// name count, nested ones too, over the ranks that have them; other values stay each rank's own: booleans, lists and
/// Python's marks, which decimals and integers beyond 64 bits are. Integers are combined exactly: their lowest and
/// highest are integers, so is a mean of equal ones ("epoch"), and a sum, unless it leaves -2^63 to 2^64 - 1; then it
/// is a floating-point number.
void reduce_metrics(std::vector<std::optional<Json>>& metrics, const std::string& reduce);

}  // namespace paceline::policy
