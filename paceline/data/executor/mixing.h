// Rows of some batches in another order, made in pieces that several threads do.
//
// A piece is a column, or some rows of a wide one. A column of numbers is larger than a core's cache, so its values are
// mixed in two steps, neither of which leaves the cache: they are dealt, in the order in which they stand, to bins of
// rows that come after each other in the new order; then each bin is put in order. Which value goes where is the same
// for all columns, and found once. A column's source is let go of once it is mixed. Columns of plain numbers and of
// lists of them that have a fixed size are copied here; of others Arrow takes the rows.
//
// Any thread may call run(), once for each piece. The batches stay as they are.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "paceline/data/executor/large_buffers.h"
#include "paceline/data/executor/row_copies.h"

namespace paceline::data {

/// Mixes batches into one.
class Mixing {
 public:
  /// That it notes for each row, beside the rows themselves.
  static constexpr int64_t kBytesOfRow = 2 * sizeof(uint32_t) + sizeof(uint16_t);

  /// `rows`: those to come, in their order, as numbers counted through the batches, which are at least one.
  static arrow::Result<std::unique_ptr<Mixing>> make(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches,
                                                     std::vector<uint32_t> rows, std::shared_ptr<LargeBuffers> buffers,
                                                     arrow::MemoryPool* pool);

  int64_t pieces() const { return static_cast<int64_t>(pieces_.size()); }
  arrow::Status run(int64_t piece);
  /// The rows in their order, once all pieces are done.
  std::shared_ptr<arrow::RecordBatch> finish();

 private:
  struct Column {
    Leaf leaf;
    bool is_plain = false;
    bool is_narrow = false;                            // mixed in bins
    std::vector<std::shared_ptr<arrow::Array>> parts;  // of the batches
    std::shared_ptr<arrow::Buffer> values;             // of a plain one
    std::shared_ptr<arrow::Array> mixed;
    std::atomic<int64_t> pieces_left = 0;
  };
  struct Piece {
    size_t column = 0;
    int64_t first = 0;
    int64_t rows = 0;
  };

  Mixing(std::shared_ptr<arrow::Schema> schema, std::vector<uint32_t> rows, std::shared_ptr<LargeBuffers> buffers,
         arrow::MemoryPool* pool);
  arrow::Status prepare(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches);
  bool find_bins();
  void mix_narrow(const Column& column) const;
  void mix_wide(const Column& column, int64_t first, int64_t rows) const;
  arrow::Result<std::shared_ptr<arrow::Array>> taken(const Column& column) const;
  const std::shared_ptr<arrow::Schema> schema_;
  const std::vector<uint32_t> rows_;
  std::vector<uint32_t> dealt_;   // where each row stands once it is dealt, counted through the bins
  std::vector<uint16_t> of_bin_;  // which of its bin's rows comes first, second, …; bin after bin
  const std::shared_ptr<LargeBuffers> buffers_;
  arrow::MemoryPool* const pool_;
  std::vector<int64_t> ends_;  // of the batches, in rows counted through them
  std::vector<std::unique_ptr<Column>> columns_;
  std::vector<Piece> pieces_;
};

}  // namespace paceline::data
