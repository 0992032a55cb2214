// TrackerFeed: hands the rows of a run's history to one tracker, on a thread of its own, in order.
//
// The history file is the queue: what a slow tracker or a server that is away has not taken stands there, so memory is
// bounded and nothing is lost; how far the tracker has come stands in trackers/NAME.json of the run folder, and the
// run's next start goes on from there. Passing errors are tried again after 0.5 s, 1 s, … 30 s, at random up to half
// of that earlier. The first of them is a warning in the log, and there is no second one before it works again.
// Threading: begin_attempt(), advance() and finish() from one thread; they never wait for the tracker but in finish().
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <variant>

#include "paceline/core/log.h"
#include "paceline/core/posix/thread.h"
#include "paceline/track/tracker/tracker.h"

namespace paceline::track {

/// `attempt.resume_step` is the number of the report that the attempt starts from, `resume_metrics` are its metrics.
struct AttemptStart {
  TrackedAttempt attempt;
  Json resume_metrics = Json::object();
};

class TrackerFeed {
 public:
  using Maker = std::function<arrow::Result<std::unique_ptr<Tracker>>(TrackerOptions)>;

  /// `name`: of its file in the run folder, and in the log. `history_bytes`: what the history has so far.
  TrackerFeed(std::string name, TrackerConfig config, TrackedRun run, int64_t history_bytes, Log& log,
              Maker make = make_tracker);
  TrackerFeed(const TrackerFeed&) = delete;
  TrackerFeed& operator=(const TrackerFeed&) = delete;
  /// As finish() without an end and patience: the run is continued, or its driver has failed.
  ~TrackerFeed();

  /// The rows behind byte `at` of the history are of this attempt.
  void begin_attempt(const AttemptStart& start, int64_t at);
  /// The history has this many bytes for readers now.
  void advance(int64_t history_bytes);
  const std::string& name() const;
  /// How much of that the tracker has not taken yet.
  int64_t bytes_behind() const;
  /// The history is complete; the tracker is told the end behind its last row.
  void finish(TrackedEnd end, int64_t history_bytes);
  /// Waits until the tracker has taken all, has given up, or `deadline` has come: then a call of the tracker is
  /// abandoned and the log says what is left. False when a call does not even return then; its thread is left behind.
  bool wait(std::chrono::steady_clock::time_point deadline);

 private:
  struct Desk;
  std::shared_ptr<Desk> desk_;
  BackgroundThread thread_;
};

}  // namespace paceline::track
