// Metrics history: every report's metrics of a run, in `metrics.jsonl` of the run folder.
//
// One line per rank and report: {"report", "attempt", "rank", "time", "metrics"}, plus {"checkpoint"} where one was
// published and, with rank 0's, {"reduced"} where the ranks' numbers were made one. Appending is buffered and written
// on flush() or after 64 KiB. A line counts when its newline is there: readers ignore a torn last line, and the writer
// of the next attempt cuts it off. Lines that a damaged disk made unreadable are left out. Writing: one thread of the
// process that holds the run's lock. Reading: any process, at any time. Errors: IOError with path and reason.
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

// A line of the history.
#define PACELINE_HISTORY_ROW_FIELDS(FIELD)                 \
  FIELD(int64_t, report, 0)                                \
  FIELD(int64_t, attempt, 1)                               \
  FIELD(int64_t, rank, 0)                                  \
  FIELD(double, time, 0.0)                                 \
  FIELD(std::string, checkpoint, "")                       \
  FIELD(nlohmann::json, metrics, nlohmann::json::object()) \
  FIELD(nlohmann::json, reduced, nullptr)
PACELINE_RECORD(HistoryRow, PACELINE_HISTORY_ROW_FIELDS);

/// Path of the history in a run folder.
std::string history_path(const std::string& run_folder);
/// The row that a line holds; nullopt for a damaged one: it costs its row, not the history.
std::optional<HistoryRow> decode_history_line(std::string_view line);

/// A row's metrics as users are shown them: reduced over the ranks where report() asked for it, else the rank's own.
const nlohmann::json& shown_metrics(const HistoryRow& row);

/// Appends to a history.
class HistoryWriter {
 public:
  /// Opens the history of a run, new or with rows of earlier attempts; new rows follow these.
  static arrow::Result<HistoryWriter> open(const std::string& run_folder);
  /// Takes a row; it is written on flush() or when 64 KiB have come together.
  arrow::Status append(const HistoryRow& row);
  /// Writes what append() has taken.
  arrow::Status flush();

  /// Bytes that readers find.
  int64_t flushed_bytes() const { return file_.size(); }
  /// The same, with those that flush() would write.
  int64_t bytes() const { return file_.size() + static_cast<int64_t>(buffer_.size()); }

 private:
  explicit HistoryWriter(AppendFile file) : file_(std::move(file)) {}
  AppendFile file_;
  std::string buffer_;
};

/// Calls `visit` with each row in the order written; with none when the run has no history.
arrow::Status visit_history(const std::string& run_folder, const std::function<void(const HistoryRow&)>& visit);
/// All rows in the order written; empty when the run has none.
arrow::Result<std::vector<HistoryRow>> read_history(const std::string& run_folder);

/// Rows as a table: report, attempt, rank, time (seconds since the Unix epoch), checkpoint (null where none), then one
/// column per metric in order of appearance. Nested names are joined by '/'; a metric with the name of one of the five
/// is called "metrics/NAME". Types: int64, double, bool or utf8; integers mixed with floats become double, any other
/// mix and lists become JSON text. Null where a row lacks the metric.
arrow::Result<std::shared_ptr<arrow::Table>> history_table(const std::vector<HistoryRow>& rows);

}  // namespace paceline::track
