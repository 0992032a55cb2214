// RunTrackers: every tracker of a run, as the controller's shell feeds them.
//
// A tracker that fails, hangs or lags never holds the run up (tracker_feed.h). Threading: the controller's thread.
#pragma once

#include <memory>
#include <vector>

#include "paceline/track/metrics_history.h"
#include "paceline/track/tracker/tracker_feed.h"

namespace paceline::track {

class RunTrackers {
 public:
  /// The most that finish() waits.
  static constexpr std::chrono::seconds kFinishPatience{8};

  /// Each gets a thread. `history` has what earlier drivers wrote; `log` must live until finish() has returned.
  RunTrackers(const std::vector<TrackerConfig>& configs, const TrackedRun& run, const HistoryWriter& history, Log& log);

  void begin_attempt(const AttemptStart& start, const HistoryWriter& history);
  /// The history has been flushed.
  void advance(const HistoryWriter& history);
  /// Waits for all trackers together.
  void finish(const TrackedEnd& end, const HistoryWriter& history);

 private:
  std::vector<std::unique_ptr<TrackerFeed>> feeds_;
};

}  // namespace paceline::track
