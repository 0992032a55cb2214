// Result: what is in a run's folder, as an object. A value; reading the folder again gives the same.
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

/// The state of a run as its folder has it. TorchTrainer::fit() returns it, and from_path() reads it later.
///
///     const auto result = paceline::Result::from_path("./results/mnist-resnet18");
///     if (result.checkpoint) result.checkpoint->load(model);
struct Result {
  /// "finished", "errored", "aborted", or the current state of an unfinished run.
  std::string state;
  /// The last metrics of rank 0 (combined over the ranks if report() asked for that), with those of the validation of
  /// that report's checkpoint.
  Metrics metrics;
  /// The latest checkpoint.
  std::optional<Checkpoint> checkpoint;
  /// The best of the kept checkpoints, the best last (by CheckpointConfig.checkpoint_score_attribute; without one the
  /// latest), with metrics of report and validation. from_path() also lists the latest if it is none of the best.
  std::vector<std::pair<Checkpoint, Metrics>> best_checkpoints;
  /// The run's folder: local, or the URI of one in an object store, without the keys that it was given with.
  std::string path;
  /// The same location, with the keys, for code that opens it.
  storage::Location location;
  /// Why the run was stopped: the reason that a callback gave to RunContext::stop(), RunConfig.max_time, or an
  /// interrupt.
  std::optional<std::string> stop_reason;
  /// Who stopped it; set if stop_reason is set.
  std::optional<StopCause> stop_cause;
  /// The message of the error that ended the run.
  std::optional<std::string> error;
  /// What failed first; set if `error` describes a failure.
  std::optional<FailureKind> failure_kind;
  /// Errors of the last attempt's workers, by rank; errors of the whole group are under -1.
  std::map<int64_t, std::string> worker_errors;
  /// What rank 0's train loop returned; null otherwise.
  Json return_value;

  /// Every report of every rank: columns report, attempt, rank, time, checkpoint, and one per metric. Reads the
  /// folder. StorageError when it cannot be read.
  std::shared_ptr<arrow::Table> metrics_history() const;
  /// Rank 0's metrics of every report, as `metrics`, the first first; where the report's checkpoint is kept, with those
  /// of its validation. Reads the folder. StorageError when it cannot be read.
  std::vector<Metrics> reported_metrics() const;
  /// The kept checkpoint whose `metric` is highest (`mode` "max") or lowest ("min"). If no kept checkpoint has the
  /// metric, or none as a number other than NaN, throws ConfigError, which names the metrics that there are.
  Checkpoint get_best_checkpoint(const std::string& metric, const std::string& mode) const;

  /// The exit code for a program that does nothing but the run: 0 when the run has finished; when a signal stopped it,
  /// what shells use for that signal, 130 after Ctrl-C and 143 after SIGTERM; 75 when nodes were lost or missing, so
  /// that another try may succeed; otherwise 1.
  int exit_code() const;

  /// Reads the result of a run from its folder alone, local or in an object store (`s3://…`). Throws StorageError if
  /// there is no run in it.
  static Result from_path(const std::string& path);
};

namespace train {

/// Which of `kept`, each kept checkpoint's metrics, Result::get_best_checkpoint() takes; `path` is the run's, for the
/// same errors. Values are compared as score_of() has them; what is none, and NaN, does not count; the first wins a
/// tie. Pure.
size_t index_of_best(const std::vector<Metrics>& kept, const std::string& metric, const std::string& mode,
                     const std::string& path);

}  // namespace train

/// Thrown by fit() when a run does not finish. what() is the complete message; result() is what the run has reached.
class TrainingFailedError : public Error {
 public:
  /// `message`: which ranks failed, why, and where their logs are.
  TrainingFailedError(const std::string& message, Result result) : Error(message), result_(std::move(result)) {}
  /// What the run has reached: checkpoints, metrics, the path.
  const Result& result() const { return result_; }

 private:
  Result result_;
};

}  // namespace paceline
