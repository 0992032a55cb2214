// RunTrackers: every tracker of a run, as the controller's shell feeds them.
//
// A tracker that fails, hangs or lags never holds the run up (tracker_feed.h). Threading: the controller's thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "paceline/track/metrics_history.h"
#include "paceline/track/tracker/tracker_feed.h"

namespace paceline::track {

class RunTrackers {
 public:
  /// The most that finish() waits.
  static constexpr std::chrono::seconds kFinishPatience{8};

  /// Each gets a thread. `history_bytes`: what earlier drivers wrote; `log` must live until finish() has returned.
  RunTrackers(const std::vector<TrackerConfig>& configs, const TrackedRun& run, int64_t history_bytes, Log& log);

  /// The rows behind byte `at` of the history are of this attempt.
  void begin_attempt(const AttemptStart& start, int64_t at);
  /// The history has this many bytes for readers now.
  void advance(int64_t history_bytes);
  /// Names of those that are more than 4 MiB of the history behind. Nobody waits for them: they read the file.
  std::vector<std::string> lagging() const;
  /// Waits for all trackers together.
  void finish(const TrackedEnd& end, int64_t history_bytes);

 private:
  std::vector<std::unique_ptr<TrackerFeed>> feeds_;
};

}  // namespace paceline::track
