// UserCallback: the user's functions that the driver calls during a run.
//
// Threading: the controller's thread calls callbacks one after another. A slow callback delays the controller, not the
// workers. An exception from a callback ends the run with an error. It never hides an earlier error, and from
// after_finish() it is only logged.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "paceline/checkpoint/checkpoint.h"
#include "paceline/core/dictionary.h"

namespace paceline {

/// What a callback learns about its run.
struct RunContext {
  /// Name of the run.
  std::string name;
  /// The run's folder.
  std::string path;
  /// The attempt's number, from 1.
  int64_t attempt = 1;
  /// Number of workers in the attempt.
  int64_t world_size = 1;
  /// Ends the run as finished, with its last checkpoint: `run.stop("accuracy 0.99 is reached")`. When the callback
  /// returns, the workers are told to stop; reports that are already on their way still arrive. Result::stop_reason has
  /// the reason. No effect after the callback has returned, or when the run is ending already.
  std::function<void(const std::string& reason)> stop = [](const std::string&) {};
};

/// How a run has ended.
struct RunEnding {
  /// "finished", "errored" or "aborted".
  std::string state;
  /// The complete error message; "" if the run finished.
  std::string error;
  /// Why the run was stopped; "" if it was not.
  std::string stop_reason;
};

/// Derive from it, override the functions you need, and put a shared_ptr into RunConfig::callbacks.
///
///     class Patience : public paceline::UserCallback {
///       void after_report(const paceline::RunContext& run, const std::vector<paceline::Metrics>& metrics,
///                         const paceline::Checkpoint*) override {
///         if (metrics[0].get<double>("loss") < 0.1) run.stop("the loss is low enough");
///       }
///     };
class UserCallback {
 public:
  virtual ~UserCallback() = default;
  /// The name that messages use for it; "" for its class's name.
  virtual std::string name() const { return ""; }
  /// All workers of an attempt have joined and begin to train. Called once for each attempt.
  virtual void after_start(const RunContext& run) {}
  /// Every rank has made this report. `metrics` are those of each rank, by rank (with ReportOptions::reduce the
  /// combined values for each). `checkpoint` is the published checkpoint; null if the report had none.
  virtual void after_report(const RunContext& run, const std::vector<Metrics>& metrics, const Checkpoint* checkpoint) {}
  /// Workers have failed. Called once for each group that did, with error messages by rank. Errors of the whole group
  /// (a lost node, a start that took too long, reports that do not fit together) are under -1.
  virtual void after_exception(const RunContext& run, const std::map<int64_t, std::string>& errors) {}
  /// The run has ended, for whatever reason. This is the last call; the run's checkpoints and history are complete.
  virtual void after_finish(const RunContext& run, const RunEnding& ending) {}
};

}  // namespace paceline
