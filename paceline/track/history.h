// History: every report's metrics of a run, in `metrics.jsonl` of the run folder.
//
// One line per rank and report: {"report", "attempt", "rank", "time", "metrics"}, plus {"checkpoint"} where one was
// published. Appending is buffered and written on flush() or after 64 KiB; a torn last line is ignored by readers.
// Writing: one thread. Reading: any process, at any time.
#pragma once

#include <arrow/result.h>
#include <arrow/table.h>

#include <memory>
#include <string>

#include "paceline/core/posix/descriptor.h"
#include "paceline/core/record.h"

namespace paceline::track {

#define PACELINE_HISTORY_ROW_FIELDS(FIELD)            \
  FIELD(int64_t, report, 0)                           \
  FIELD(int64_t, attempt, 1)                          \
  FIELD(int64_t, rank, 0)                             \
  FIELD(double, time, 0.0)                            \
  FIELD(std::string, checkpoint, "")                  \
  FIELD(nlohmann::json, metrics, nlohmann::json::object())
PACELINE_RECORD(HistoryRow, PACELINE_HISTORY_ROW_FIELDS);

class HistoryWriter {
 public:
  static arrow::Result<HistoryWriter> open(const std::string& run_folder);
  arrow::Status append(const HistoryRow& row);
  arrow::Status flush();

 private:
  explicit HistoryWriter(Descriptor file) : file_(std::move(file)) {}
  Descriptor file_;
  std::string buffer_;
};

/// All rows in the order written; empty when the run has none.
arrow::Result<std::vector<HistoryRow>> read_history(const std::string& run_folder);

/// Rows as a table: report, attempt, rank, time, checkpoint, then one column per metric (nested names joined by '/';
/// int64, double, bool or utf8; null where a row lacks it; mixed integers and floats become double, else utf8).
arrow::Result<std::shared_ptr<arrow::Table>> history_table(const std::vector<HistoryRow>& rows);

}  // namespace paceline::track
