// Result: what a run has left in its folder, as an object. A value; reading the folder again gives the same.
#pragma once

#include <arrow/table.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/checkpoint/checkpoint.h"
#include "paceline/core/dictionary.h"
#include "paceline/core/ending.h"
#include "paceline/core/error.h"
#include "paceline/storage/location.h"

namespace paceline {

/// A run as it stands in its folder: TorchTrainer::fit() returns it, from_path() reads it later.
///
///     const auto result = paceline::Result::from_path("./results/mnist-resnet18");
///     if (result.checkpoint) result.checkpoint->load(model);
struct Result {
  /// "finished", "errored", "aborted", or the state in which an unfinished run stands.
  std::string state;
  /// The last metrics of rank 0 (reduced over ranks where report() said so).
  Metrics metrics;
  /// The latest checkpoint.
  std::optional<Checkpoint> checkpoint;
  /// Checkpoints that are still there, the best last (CheckpointConfig.checkpoint_score_attribute; else the latest), as
  /// in Ray Train, with the metrics they were reported with and those of their validation.
  std::vector<std::pair<Checkpoint, Metrics>> best_checkpoints;
  /// The run's folder: local, or the URI of one in an object store, without the keys that it was given with.
  std::string path;
  /// The same, with the keys, for what opens it.
  storage::Location location;
  /// Why the run was stopped: what a callback said to RunContext::stop(), RunConfig.max_time, an interrupt.
  std::optional<std::string> stop_reason;
  /// Who stopped it; set where stop_reason is.
  std::optional<StopCause> stop_cause;
  /// The message of the error that ended the run.
  std::optional<std::string> error;
  /// What failed first; set where error tells of a failure.
  std::optional<FailureKind> failure_kind;
  /// Errors of the last attempt's workers by rank; what concerns the whole group is under -1.
  std::map<int64_t, std::string> worker_errors;
  /// What rank 0's train loop returned; null otherwise.
  Json return_value;

  /// Every report of every rank: columns report, attempt, rank, time, checkpoint, and one per metric. Reads the
  /// folder. StorageError when it cannot be read.
  std::shared_ptr<arrow::Table> metrics_history() const;
  /// The kept checkpoint whose `metric` is highest (`mode` "max") or lowest ("min"). ConfigError naming the metrics
  /// that there are when no kept checkpoint has it.
  Checkpoint get_best_checkpoint(const std::string& metric, const std::string& mode) const;

  /// The result of a run from nothing but its folder, local or in an object store (`s3://…`). StorageError when there
  /// is no run in it.
  static Result from_path(const std::string& path);
};

/// Thrown by fit() when a run does not finish; what() is the whole story, result() what the run has left all the same.
class TrainingFailedError : public Error {
 public:
  /// `message`: which ranks failed, why, and where their logs are.
  TrainingFailedError(const std::string& message, Result result) : Error(message), result_(std::move(result)) {}
  /// What the run has left: checkpoints, metrics, the path.
  const Result& result() const { return result_; }

 private:
  Result result_;
};

}  // namespace paceline
