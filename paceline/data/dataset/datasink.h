// Datasink: where a user's program writes the rows of a dataset to. Ray Data's names.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>

namespace paceline::data {

/// One write, by Dataset::write_datasink(), which calls all this in the thread that has called it; blocks come in the
/// order of the rows, while the next ones are read.
class Datasink {
 public:
  virtual ~Datasink() = default;
  /// Before the first block is written. The columns are those of the dataset.
  virtual void on_write_start(const arrow::Schema&) {}
  /// Writes a block, which has a row at least.
  virtual void write(const std::shared_ptr<arrow::RecordBatch>& block) = 0;
  /// Behind the last block: now what was written may be seen.
  virtual void on_write_complete() {}
  /// Instead, where an exception has ended the write, in reading or in a call of this object; the caller gets it
  /// afterwards. What was written may be taken away.
  virtual void on_write_failed() noexcept {}
};

}  // namespace paceline::data
