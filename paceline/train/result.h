// Result: what a run has left in its folder, as an object. A value; reading the folder again gives the same.
#pragma once

#include <arrow/table.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/checkpoint/checkpoint.h"
#include "paceline/core/dictionary.h"
#include "paceline/core/error.h"

namespace paceline {

struct Result {
  /// "finished", "errored", "aborted", or the state in which an unfinished run stands.
  std::string state;
  /// The last metrics of rank 0 (reduced over ranks where report() said so).
  Metrics metrics;
  /// The latest checkpoint.
  std::optional<Checkpoint> checkpoint;
  /// Checkpoints that are still there, best first (CheckpointConfig.checkpoint_score_attribute; else the latest first),
  /// with the metrics they were reported with.
  std::vector<std::pair<Checkpoint, Metrics>> best_checkpoints;
  /// The run's folder.
  std::string path;
  /// The message of the error that ended the run.
  std::optional<std::string> error;
  /// What rank 0's train loop returned; null otherwise.
  Json return_value;

  /// Every report of every rank: columns report, attempt, rank, time, checkpoint, and one per metric. Reads the
  /// folder. StorageError when it cannot be read.
  std::shared_ptr<arrow::Table> metrics_history() const;
  /// The kept checkpoint whose `metric` is highest (`mode` "max") or lowest ("min"). ConfigError naming the metrics
  /// that there are when no kept checkpoint has it.
  Checkpoint get_best_checkpoint(const std::string& metric, const std::string& mode) const;

  /// The result of a run from nothing but its folder. StorageError when there is no run in it.
  static Result from_path(const std::string& path);
};

/// Thrown by fit() when a run does not finish; what() is the whole story, result() what the run has left all the same.
class TrainingFailedError : public Error {
 public:
  TrainingFailedError(const std::string& message, Result result) : Error(message), result_(std::move(result)) {}
  const Result& result() const { return result_; }

 private:
  Result result_;
};

}  // namespace paceline
