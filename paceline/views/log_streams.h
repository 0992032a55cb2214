// What a run's processes have written, in pieces: which logs there are, and a part of one.
//
// A log is named by its stream: "controller", "worker_7", "data_1", "validation_42", and "worker_7.1" for the piece of
// a rotated log before it: the name of the file without ".log". Names are looked up among the files that are there,
// which are opened without following a link: no name leads out of the folder of the logs. Thread-safe: no state.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "paceline/core/record.h"
#include "paceline/track/run_record.h"

namespace paceline::views {

// One log.
#define PACELINE_LOG_STREAM_FIELDS(FIELD)                                                      \
  FIELD(std::string, stream, "")                                                               \
  FIELD(std::string, kind, "")               /* controller, worker, data, validation, other */ \
  FIELD(std::optional<int64_t>, worker, {})  /* of a worker's */                               \
  FIELD(std::optional<int64_t>, rank, {})    /* likewise, once it had one */                   \
  FIELD(std::optional<int64_t>, attempt, {}) /* likewise */                                    \
  FIELD(int64_t, size, 0)                    /* bytes */                                       \
  FIELD(double, modified, 0.0)               /* seconds since the Unix epoch */
PACELINE_RECORD(LogStream, PACELINE_LOG_STREAM_FIELDS);

/// The controller's first, then workers' by attempt, rank and piece, then the others by name.
arrow::Result<std::vector<LogStream>> log_streams(const track::RunRecord& record);

/// Which part of a log.
struct LogRange {
  /// Bytes from its beginning; a negative one counts from its end, and begins with a whole line.
  int64_t offset = 0;
  /// Only what stands before this byte, the beginning of a line. With one that is not the default, what is read are the
  /// last whole lines before it, and `offset` is not looked at.
  int64_t before = std::numeric_limits<int64_t>::max();
  /// Bytes at most; what is read ends with a whole line, where there is one.
  int64_t limit = 65536;
  /// Only lines with this text, in letters of any case; then `limit` bounds what is given, and kMostSearched what is
  /// looked through at once.
  std::string grep;
};
inline constexpr int64_t kMostLogBytes = int64_t{1} << 20;
inline constexpr int64_t kMostSearched = int64_t{8} << 20;

// A part of a log.
#define PACELINE_LOG_PART_FIELDS(FIELD)                                                       \
  FIELD(std::string, text, "") /* bytes that are no UTF-8 are replaced */                     \
  FIELD(int64_t, offset, 0)    /* of what was looked at */                                    \
  FIELD(int64_t, next, 0)      /* where to go on; the same as offset when nothing has come */ \
  FIELD(int64_t, size, 0)      /* of the log by now */
PACELINE_RECORD(LogPart, PACELINE_LOG_PART_FIELDS);

/// KeyError when the run has no such log.
arrow::Result<LogPart> read_log(const std::string& run_folder, const std::string& stream, const LogRange& range);

}  // namespace paceline::views
