// Metrics history: every report's metrics of a run, in `metrics.jsonl` of the run folder.
//
// One line per rank and report, written when it comes: {"report", "attempt", "rank", "time", "metrics"}. What is known
// later only is a line of its own with rank -1, the group's: {"reduced"} when every rank has made a report whose
// numbers are made one, {"checkpoint"} when one is published, with the metrics that users are shown of its report.
// Users are shown reports in order, so rank 0's lines have {"later": true} where they are not shown themselves but the
// group's line is: with `reduce`, and behind one of those that is not complete. Version 0.1 wrote a report's lines when
// all of that was known, into these. Every 256 KiB a line {"rank": -1, "highest", "settled"} tells a driver that takes
// the run over what stands before it; readers leave these marks out. Appending is buffered and written on flush() or
// after 64 KiB; sync() makes it survive a crash of the machine. A line counts when its newline is there: readers ignore
// a torn last line, and the writer of the next attempt cuts it off. Lines that a damaged disk made unreadable are left
// out. Writing: one thread of the process that holds the run's lock. Reading: any process, at any time. Errors: IOError
// with path and reason.
#pragma once

#include <arrow/result.h>
#include <arrow/table.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/record.h"
#include "paceline/track/append_file.h"

namespace paceline::track {

/// In place of a rank: what a line says of the report as a whole.
inline constexpr int64_t kWholeGroup = -1;

// A line of the history.
#define PACELINE_HISTORY_ROW_FIELDS(FIELD)                   \
  FIELD(int64_t, report, 0)                                  \
  FIELD(int64_t, attempt, 1)                                 \
  FIELD(int64_t, rank, 0)                                    \
  FIELD(double, time, 0.0)                                   \
  FIELD(bool, later, false)                                  \
  FIELD(int64_t, highest, 0) /* in a mark: see HistoryEnd */ \
  FIELD(int64_t, settled, 0) /* in a mark: see HistoryEnd */ \
  FIELD(std::string, checkpoint, "")                         \
  FIELD(nlohmann::json, metrics, nlohmann::json::object())   \
  FIELD(nlohmann::json, reduced, nullptr)
PACELINE_RECORD(HistoryRow, PACELINE_HISTORY_ROW_FIELDS);

/// Path of the history in a run folder.
std::string history_path(const std::string& run_folder);
/// The row that a line holds; nullopt for a damaged one: it costs its row, not the history.
std::optional<HistoryRow> decode_history_line(std::string_view line);

/// The metrics that users are shown of a report, where this line has them: rank 0's own, or the group's. Null for any
/// other line.
const nlohmann::json* shown_metrics(const HistoryRow& row);

/// Whether the line may be one with metrics that users are shown: false for what other ranks report, which is most of a
/// history, without the work of decoding it.
bool may_be_shown(std::string_view line);

/// What a driver that takes a run over has to know of its history.
struct HistoryEnd {
  /// The highest number of a report in it.
  int64_t highest = 0;
  /// When the last line was written, in seconds; 0 for none.
  double last_time = 0;
  /// Of reports up to this number, every published checkpoint has its line. Publications come in the order of reports,
  /// and a driver that takes a run over first writes the lines that are missing.
  int64_t settled = 0;
  /// Further reports whose checkpoints have a line.
  std::set<int64_t> checkpoints;
  /// How many lines were read for this.
  int64_t lines_read = 0;

  /// Whether the checkpoint of that report has its line.
  bool has_line_of(int64_t report) const { return report <= settled || checkpoints.contains(report); }
};

/// Reads it from the end of the history to the last mark: however long the history is, little is read.
arrow::Result<HistoryEnd> read_history_end(const std::string& run_folder);

/// Makes lines of rows, and marks between them. Pure.
class HistoryEncoder {
 public:
  /// Of a history that ends so.
  explicit HistoryEncoder(const HistoryEnd& end);
  /// Appends the row's line to `text`, and a mark when one is due.
  void append(const HistoryRow& row, std::string& text);

 private:
  int64_t highest_;
  int64_t settled_;
  double last_time_;
  size_t since_mark_ = 0;  // bytes
};

/// Opens the file of a history for appending: new, or with rows of earlier attempts.
arrow::Result<AppendFile> open_history(const std::string& run_folder);

/// Appends to a history, on the calling thread.
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
  HistoryWriter(AppendFile file, const HistoryEnd& end) : file_(std::move(file)), encoder_(end) {}
  AppendFile file_;
  HistoryEncoder encoder_;
  std::string buffer_;
};

/// Calls `visit` with each line but marks in the order written; with none when the run has no history.
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
