// ReportQueue: complete reports on their way into the metrics history, in order, each until its checkpoint is published
// or will not be.
//
// Threading: the controller's thread.
#pragma once

#include <arrow/result.h>

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/clock.h"
#include "paceline/core/ids.h"
#include "paceline/policy/report_book.h"
#include "paceline/track/metrics_history.h"

namespace paceline::controller {

class ReportQueue {
 public:
  struct Entry {
    policy::GroupReport group;
    Attempt attempt;
    double time = 0;
    /// Name of its checkpoint's folder; "" for none.
    std::string checkpoint;
    bool waits = false;
  };

  explicit ReportQueue(track::HistoryWriter writer) : writer_(std::move(writer)) {}

  /// Takes a report; one with parts waits for settle().
  void add(policy::GroupReport group, Attempt attempt, Time now);
  /// The report's checkpoint is published under that name, or, "", it could not be.
  void settle(int64_t report, const std::string& checkpoint);
  /// Nothing waits any more: what has no checkpoint yet gets none.
  void settle_all();
  /// Whether a report of that number or a lower one waits.
  bool waits_up_to(int64_t report) const;
  /// The report that waits, null when there is none of that number.
  const Entry* find(int64_t report) const;

  /// Writes what waits for nothing, and gives it.
  arrow::Result<std::vector<Entry>> write();
  arrow::Status flush();
  /// When the oldest row that is only in memory came: it is flushed a second later at most.
  std::optional<Time> unflushed_since() const { return unflushed_since_; }
  const track::HistoryWriter& history() const { return writer_; }

 private:
  track::HistoryWriter writer_;
  std::deque<Entry> entries_;
  std::optional<Time> unflushed_since_;
};

}  // namespace paceline::controller
