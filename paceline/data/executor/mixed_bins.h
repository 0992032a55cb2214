// The rows of a window, mixed bin by bin as order/window_mix.h says.
//
// deal() puts the rows of a chunk into another sequence, bin after bin, soon after they are read: while they are in the
// cache of the core that has decoded them, so that it costs little, and the memory they were decoded into is free for
// the next chunk. A bin's rows, which are some of each chunk, are put in order when the first consumer comes to it, and
// are gone when the last one leaves it. So a window is in memory once.
//
// Columns of plain numbers and of lists of them that have a fixed size are copied here; of others Arrow takes the rows.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "paceline/data/memory/ledger.h"
#include "paceline/data/order/window_mix.h"

namespace paceline::data {

/// Rows that stand bin after bin, those of each in the order in which they came.
struct DealtRows {
  std::shared_ptr<arrow::RecordBatch> batch;
  std::vector<uint32_t> ends;  ///< of each bin, in rows of the batch
};

/// The batch's rows, of which each has the bin of its place in `bins`, a number below `count`. Where nobody else has
/// the batch, its columns go one after the other meanwhile.
arrow::Result<DealtRows> deal(std::shared_ptr<arrow::RecordBatch> batch, std::span<const uint16_t> bins, int64_t count,
                              arrow::MemoryPool* pool);

/// The rows of some neighbouring bins in their order.
struct MixedRows {
  int64_t first = 0;  ///< how many rows of the window stand before them
  std::shared_ptr<arrow::RecordBatch> batch;
};

/// A window. Any thread may call at().
class MixedBins {
 public:
  /// Bins are mixed together, as far as they have no more bytes: so few batches are of two of them.
  static constexpr int64_t kBytesTogether = int64_t{2} << 20;

  /// `parts`: in the order of the window's chunks, with one schema. They have `bytes` bytes in all, about. What at()
  /// gives counts in the ledger as what only batches hold.
  MixedBins(const WindowMix& mix, std::vector<DealtRows> parts, int64_t bytes, const std::shared_ptr<Ledger>& ledger,
            arrow::MemoryPool* pool);
  ~MixedBins();
  MixedBins(const MixedBins&) = delete;
  MixedBins& operator=(const MixedBins&) = delete;

  /// The rows among which the window's row `place` is. Those who ask for them at the same time share them.
  arrow::Result<std::shared_ptr<const MixedRows>> at(int64_t place) const;

 private:
  struct Group;
  struct Column;
  struct Cell;
  std::vector<Cell> cells_of(size_t bin) const;
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> mixed(size_t first_bin, size_t end_bin) const;
  arrow::Status mix_plain(const Column& column, size_t first_bin, std::span<const std::vector<uint16_t>> orders,
                          uint8_t* target) const;

  const WindowMix mix_;
  const std::vector<DealtRows> parts_;
  const std::shared_ptr<Ledger> ledger_;
  arrow::MemoryPool* const pool_;
  std::vector<Column> columns_;
  std::vector<int64_t> ends_;  // of each bin, in rows of the window
  size_t bins_together_ = 1;
  std::unique_ptr<Group[]> made_;
};

}  // namespace paceline::data
