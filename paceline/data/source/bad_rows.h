// What becomes of rows that cannot be read, or that a function of the user's fails for.
//
// A block that fails as a whole is halved until its bad rows are alone: they are the same ones on any thread, machine
// and layout of ranks. Each is written to the quarantine, a file of JSON lines, once in each process that meets it (the
// first million of them: more are not remembered); a write that fails is made up for when the row is met again. Then
// the row is left out, or a good row takes its place: of its block, or where that has none of the nearest block that
// has one, in the order of the source, whatever is read when. Thread-safe; several processes may write to one file.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>

#include "paceline/core/json.h"
#include "paceline/core/posix/forks.h"

namespace paceline::data {

enum class OnError {
  skip,    ///< a bad row is left out: how many rows there are is known when they are read
  replace  ///< the good row before it, or where there is none the first behind it, takes its place
};

struct BadRowOptions {
  OnError on_error = OnError::skip;
  std::string quarantine;    ///< path of a local file, to which lines are added; empty for none
  int64_t most_blocks = -1;  ///< with bad rows; one more is an error. -1: any number
};

class BadRows {
 public:
  explicit BadRows(BadRowOptions options) : options_(std::move(options)) {}

  const BadRowOptions& options() const { return options_; }
  uint64_t fingerprint() const { return static_cast<uint64_t>(options_.on_error) + 1; }

  using Attempt = std::function<arrow::Result<std::shared_ptr<arrow::RecordBatch>>(int64_t first, int64_t rows)>;
  using Describe = std::function<Json(int64_t row)>;
  /// Another block, in which a good row is looked for.
  struct Other {
    int64_t rows = 0;
    Attempt attempt;
  };
  /// Reads one; nullopt where it has no rows that can be read.
  using Others = std::function<arrow::Result<std::optional<Other>>(int64_t block)>;
  /// Where the block stands among those of its source.
  struct Place {
    int64_t block = 0;
    int64_t blocks = 1;
    Others others;
  };
  /// What `attempt` makes of the good ones of `rows` rows, which it has failed for with `status` all together.
  /// `describe`: what the quarantine says of a bad row besides its error. What is not a row's fault (memory, an
  /// interrupt) is an error still, and so is, with OnError::replace, that no block has a good row.
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> without_bad(int64_t rows, const arrow::Status& status,
                                                                 const Attempt& attempt, const Describe& describe,
                                                                 const Place& place);

 private:
  struct Parts;
  arrow::Status sort_out(int64_t first, int64_t rows, const Attempt& attempt, Parts& parts) const;
  static arrow::Result<std::shared_ptr<arrow::RecordBatch>> good_row(int64_t first, int64_t rows, bool is_last,
                                                                     const Attempt& attempt);
  static arrow::Result<std::shared_ptr<arrow::RecordBatch>> good_row_elsewhere(const Place& place);
  arrow::Status quarantine(const Parts& parts, const Describe& describe);

  const BadRowOptions options_;
  struct Met {
    std::mutex mutex;
    std::unordered_set<uint64_t> lines;   // that are in the quarantine
    std::unordered_set<uint64_t> blocks;  // the first bad row of each
  };
  const PerProcess<Met> met_;
};

/// Of a step's options: `on_error` ("raise", "skip" or "replace"), `quarantine`, `most_errored_blocks`. A null pointer
/// for "raise", the default. May throw Json::exception for options of another type.
arrow::Result<std::shared_ptr<BadRows>> bad_rows_of(const Json& options);

}  // namespace paceline::data
