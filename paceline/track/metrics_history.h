// Metrics history: every report's metrics of a run, in `metrics.jsonl` of the run folder.
//
// One line per rank and report, written when it comes: {"report", "attempt", "rank", "time", "metrics"}. What is known
// later only is a line of its own with rank -1, the group's: {"reduced"} when every rank has made a report whose
// numbers are made one, {"checkpoint"} when one is published, with the metrics that users are shown of its report.
// Users are shown reports in order, so rank 0's lines have {"later": true} where they are not shown themselves but the
// group's line is: with `reduce`, and behind one of those that is not complete. Version 0.1 wrote a report's lines when
// all of that was known, into these. Appending is buffered and written on flush() or after 64 KiB; sync() makes it
// survive a crash of the machine. A line counts when its newline is there: readers ignore a torn last line, and the
// writer of the next attempt cuts it off. Lines that a damaged disk made unreadable are left out. Writing: one thread
// of the process that holds the run's lock. Reading: any process, at any time. Errors: IOError with path and reason.
#pragma once

#include <arrow/result.h>
#include <arrow/table.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/record.h"
#include "paceline/track/append_file.h"

namespace paceline::track {

/// In place of a rank: what a line says of the report as a whole.
inline constexpr int64_t kWholeGroup = -1;

// A line of the history.
#define PACELINE_HISTORY_ROW_FIELDS(FIELD)                 \
  FIELD(int64_t, report, 0)                                \
  FIELD(int64_t, attempt, 1)                               \
  FIELD(int64_t, rank, 0)                                  \
  FIELD(double, time, 0.0)                                 \
  FIELD(bool, later, false)                                \
  FIELD(std::string, checkpoint, "")                       \
  FIELD(nlohmann::json, metrics, nlohmann::json::object()) \
  FIELD(nlohmann::json, reduced, nullptr)
PACELINE_RECORD(HistoryRow, PACELINE_HISTORY_ROW_FIELDS);

/// Path of the history in a run folder.
std::string history_path(const std::string& run_folder);
/// The row that a line holds; nullopt for a damaged one: it costs its row, not the history.
std::optional<HistoryRow> decode_history_line(std::string_view line);

/// The metrics that users are shown of a report, where this line has them: rank 0's own, or the group's. Null for any
/// other line.
const nlohmann::json* shown_metrics(const HistoryRow& row);

/// Appends to a history.
class HistoryWriter {
 public:
  /// Opens the history of a run, new or with rows of earlier attempts; new rows follow these.
  static arrow::Result<HistoryWriter> open(const std::string& run_folder);
  /// Takes a row; it is written on flush() or when 64 KiB have come together.
  arrow::Status append(const HistoryRow& row);
  /// Writes what append() has taken.
  arrow::Status flush();
  /// Writes it, and fsync.
  arrow::Status sync();

  /// Bytes that readers find.
  int64_t flushed_bytes() const { return file_.size(); }
  /// The same, with those that flush() would write.
  int64_t bytes() const { return file_.size() + static_cast<int64_t>(buffer_.size()); }

 private:
  explicit HistoryWriter(AppendFile file) : file_(std::move(file)) {}
  AppendFile file_;
  std::string buffer_;
};

/// Calls `visit` with each line in the order written; with none when the run has no history.
arrow::Status visit_history(const std::string& run_folder, const std::function<void(const HistoryRow&)>& visit);
/// The ranks' rows by report, then rank, with what the group's lines say of their reports: the checkpoint in each,
/// `reduced` in rank 0's. Empty when the run has none.
arrow::Result<std::vector<HistoryRow>> read_history(const std::string& run_folder);

/// Rows as a table: report, attempt, rank, time (seconds since the Unix epoch), checkpoint (null where none), then one
/// column per metric in order of appearance. Nested names are joined by '/'; a metric with the name of one of the five
/// is called "metrics/NAME". Types: int64, double, bool or utf8; integers mixed with floats become double, any other
/// mix and lists become JSON text. Null where a row lacks the metric.
arrow::Result<std::shared_ptr<arrow::Table>> history_table(const std::vector<HistoryRow>& rows);

}  // namespace paceline::track
