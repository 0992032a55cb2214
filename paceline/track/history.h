// History: every report's metrics of a run, in `metrics.jsonl` of the run folder.
//
// One line per rank and report: {"report", "attempt", "rank", "time", "metrics"}, plus {"checkpoint"} where one was
// published and, with rank 0's, {"reduced"} where the ranks' numbers were made one. Appending is buffered and written
// on flush() or after 64 KiB. A line counts when its newline is there: readers ignore a torn last line, and the writer
// of the next attempt cuts it off. Lines that a damaged disk made unreadable are left out. Writing: one thread of the
// process that holds the run's lock. Reading: any process, at any time. Errors: IOError with path and reason.
#pragma once

#include <arrow/result.h>
#include <arrow/table.h>

#include <memory>
#include <string>
#include <vector>

#include "paceline/core/posix/descriptor.h"
#include "paceline/core/record.h"

namespace paceline::track {

#define PACELINE_HISTORY_ROW_FIELDS(FIELD)                 \
  FIELD(int64_t, report, 0)                                \
  FIELD(int64_t, attempt, 1)                               \
  FIELD(int64_t, rank, 0)                                  \
  FIELD(double, time, 0.0)                                 \
  FIELD(std::string, checkpoint, "")                       \
  FIELD(nlohmann::json, metrics, nlohmann::json::object()) \
  FIELD(nlohmann::json, reduced, nullptr)
PACELINE_RECORD(HistoryRow, PACELINE_HISTORY_ROW_FIELDS);

/// A row's metrics as users are shown them: reduced over the ranks where report() asked for it, else the rank's own.
const nlohmann::json& shown_metrics(const HistoryRow& row);

class HistoryWriter {
 public:
  /// Opens the history of a run, new or with rows of earlier attempts; new rows follow these.
  static arrow::Result<HistoryWriter> open(const std::string& run_folder);
  arrow::Status append(const HistoryRow& row);
  arrow::Status flush();

 private:
  HistoryWriter(Descriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  Descriptor file_;
  std::string path_;
  std::string buffer_;
};

/// All rows in the order written; empty when the run has none.
arrow::Result<std::vector<HistoryRow>> read_history(const std::string& run_folder);

/// Rows as a table: report, attempt, rank, time (seconds since the Unix epoch), checkpoint (null where none), then one
/// column per metric in order of appearance. Nested names are joined by '/'; a metric with the name of one of the five
/// is called "metrics/NAME". Types: int64, double, bool or utf8; integers mixed with floats become double, any other
/// mix and lists become JSON text. Null where a row lacks the metric.
arrow::Result<std::shared_ptr<arrow::Table>> history_table(const std::vector<HistoryRow>& rows);

}  // namespace paceline::track
