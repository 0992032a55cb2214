// UserCallback: what users may hook into a run, in the driver.
//
// Threading: called one after another on the controller's thread; a slow callback delays the controller, not the
// workers. An exception from a callback ends the run with an error; it never hides an error that is there already, and
// from after_finish() it is only logged.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "paceline/checkpoint/checkpoint.h"
#include "paceline/core/dictionary.h"

namespace paceline {

/// What a callback is told about its run.
struct RunContext {
  /// Of the run.
  std::string name;
  /// The run's folder.
  std::string path;
  /// From 1.
  int64_t attempt = 1;
  /// Workers of the attempt.
  int64_t world_size = 1;
  /// Ends the run as finished, with its last checkpoint: `run.stop("accuracy 0.99 is reached")`. The workers are told
  /// to stop when the callback returns; reports that are on their way still come. The reason is in Result::stop_reason.
  /// Without effect after the callback, and once the run is ending.
  std::function<void(const std::string& reason)> stop = [](const std::string&) {};
};

/// How a run has ended.
struct RunEnding {
  /// "finished", "errored" or "aborted".
  std::string state;
  /// The whole message, "" when it finished.
  std::string error;
  /// Why it was stopped, "" when it was not.
  std::string stop_reason;
};

/// Derive, override what is of interest, put a shared_ptr into RunConfig::callbacks.
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
  /// What messages call it; "": its class's name.
  virtual std::string name() const { return ""; }
  /// All workers of an attempt have joined and begin to train; once for each attempt.
  virtual void after_start(const RunContext& run) {}
  /// Every rank has made this report: its metrics by rank (with ReportOptions::reduce the group's numbers on each), and
  /// the checkpoint if one was published (else null).
  virtual void after_report(const RunContext& run, const std::vector<Metrics>& metrics, const Checkpoint* checkpoint) {}
  /// Workers have failed, once for each group that did: messages by rank. What concerns the whole group (a lost node, a
  /// start that took too long, reports that do not fit together) is under -1.
  virtual void after_exception(const RunContext& run, const std::map<int64_t, std::string>& errors) {}
  /// The run has ended, however it did; the last call. Its checkpoints and history are complete.
  virtual void after_finish(const RunContext& run, const RunEnding& ending) {}
};

}  // namespace paceline
