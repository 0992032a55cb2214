// Tracker: a place beside the run folder that gets a run's metrics: event files, a table, a server.
//
// The run's history is the queue: a tracker is handed its rows in order, from where it last stood, on a thread of its
// own (run_trackers.h). Calls of one tracker never overlap. An IOError counts as passing: the same call comes again;
// any other error ends the tracker until the run's next start. When a call returns, what it took is stored, in a file
// or at a server. After a crash rows may come twice; a tracker that can tell skips them.
#pragma once

#include <arrow/result.h>

#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/config/tracker_config.h"
#include "paceline/core/ending.h"
#include "paceline/core/json.h"

namespace paceline::track {

/// What a tracker is told about its run when it is made.
struct TrackedRun {
  std::string name;
  /// Absolute.
  std::string folder;
  Json train_loop_config = Json::object();
};

/// A worker group begins to train. `resume_step`: the step of the checkpoint that it starts from, 0 for none; what was
/// reported beyond it, by a group that failed, is void. `time`: seconds since the Unix epoch.
struct TrackedAttempt {
  int64_t attempt = 1;
  int64_t world_size = 1;
  int64_t resume_step = 0;
  double time = 0;
};

/// A report: the metrics as users are shown them, nested names joined by '/'. Values are numbers, truth values, texts,
/// nulls and lists. Reports come in order. A checkpoint that was published comes behind its report, and perhaps behind
/// later ones, in a row of its own that has no metrics; version 0.1 had it in the report's. `checkpoint`: its name, ""
/// for none.
struct TrackedRow {
  int64_t step = 0;
  int64_t report = 0;
  int64_t attempt = 1;
  double time = 0;
  std::string checkpoint;
  std::vector<std::pair<std::string, Json>> metrics;

  bool is_checkpoint() const { return metrics.empty() && !checkpoint.empty(); }
};

/// `message`: the error, or why the run was stopped; "" for neither.
struct TrackedEnd {
  FinalState state = FinalState::finished;
  std::string message;
  double time = 0;
};

class Tracker {
 public:
  virtual ~Tracker() = default;
  /// Before the rows of an attempt; not before those that an earlier driver has left.
  virtual arrow::Status begin_attempt(const TrackedAttempt& attempt) = 0;
  virtual arrow::Status write(std::span<const TrackedRow> rows) = 0;
  virtual arrow::Status finish(const TrackedEnd& end) = 0;
  /// What make_tracker() is given when the run is continued: the id of a run at a server. Null for nothing.
  virtual Json memory() const { return nullptr; }
};

struct TrackerOptions {
  TrackerConfig config;
  TrackedRun run;
  Json memory;
  /// Stopped when nobody waits any more: a call that waits for a server returns with an IOError soon.
  std::stop_token abandoned;
};

/// Opens nothing yet. Invalid when check_tracker() says so.
arrow::Result<std::unique_ptr<Tracker>> make_tracker(TrackerOptions options);
/// Invalid when a setting makes no sense for the kind, or one that it needs is missing.
arrow::Status check_tracker(const TrackerConfig& config);

/// A report's metrics as trackers get them.
std::vector<std::pair<std::string, Json>> flat_metrics(const Json& metrics);
/// A report's step: the number that `step_metric` names, else the report's own.
int64_t step_of(const std::string& step_metric, const Json& metrics, int64_t report);
/// A metric as a number; nothing for texts, lists and nulls.
std::optional<double> number_of(const Json& value);

}  // namespace paceline::track
