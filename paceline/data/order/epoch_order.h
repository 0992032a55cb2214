// The order of a dataset's rows in one epoch: a pure function of its chunks, the seed and the epoch.
//
// A chunk is what can be read alone (a Parquet row group, an Arrow record batch); it has a number, its place in the
// list that the source gives. The order puts the chunks in a row, in windows of a few chunks each, and mixes the rows
// of each window. A position counts rows of this order that are done. So a position means the same rows on every
// machine, with any number of threads, ranks and nodes, and whoever goes on from it needs to read only the windows from
// there on.
//
// Where a filter leaves fewer rows of a chunk than are listed, windows have the same chunks, and what is left of a
// window's rows is mixed: then a row is found by its window and its place there, since positions are known only to whom
// has been through all windows before.
//
// Immutable, so any thread may use one. Memory: 16 bytes a chunk and 32 a window; nothing a row,
// except in mixed().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "paceline/data/order/permutation.h"
#include "paceline/data/order/window_mix.h"

namespace paceline::data {

/// What of an order is by chance. Each includes what stands before it, except that `rows` takes chunks from all files.
enum class Shuffle {
  none,    ///< files, chunks and rows as the source lists them, the same in each epoch
  files,   ///< files in another order, their chunks and rows in sequence
  chunks,  ///< chunks of all files in another order, their rows in sequence
  rows     ///< chunks of all files in another order, and the rows of each window of chunks mixed
};

struct OrderOptions {
  Shuffle shuffle = Shuffle::none;
  int64_t seed = 0;
  bool seed_is_drawn = false;  ///< nobody has chosen it
  int64_t epoch = 0;           ///< from 0
  /// With Shuffle::rows: a window takes chunks until it holds this many bytes (as decoded), and at least one chunk.
  int64_t window_bytes = int64_t{64} << 20;
};

/// What an order needs to know of a chunk.
struct ChunkSize {
  int64_t rows = 0;
  int64_t bytes = 0;          ///< decoded
  int64_t file = 0;           ///< chunks of one file stand together in the source's list
  int64_t bytes_to_read = 0;  ///< that are in memory besides while it is read
};

/// A row of a chunk.
struct RowPlace {
  int64_t chunk = 0;
  int64_t row = 0;  ///< within the chunk
  friend bool operator==(const RowPlace&, const RowPlace&) = default;
};

/// Rows of a chunk that follow each other there and in the order.
struct RowRun {
  int64_t chunk = 0;
  int64_t first = 0;  ///< within the chunk
  int64_t rows = 0;
  friend bool operator==(const RowRun&, const RowRun&) = default;
};

/// Chunks whose rows are mixed with each other. Without Shuffle::rows each chunk is a window.
struct Window {
  int64_t first = 0;        ///< position of its first row, if the chunks have as many rows as is listed
  int64_t rows = 0;         ///< the same of its rows
  int64_t first_chunk = 0;  ///< place of its first chunk in chunks()
  int64_t chunks = 0;
};

/// The order of one epoch.
///
///     const EpochOrder order(source->chunks(), {.shuffle = Shuffle::rows, .seed = 7, .epoch = 3});
///     order.at(0);  // the row that comes first
class EpochOrder {
 public:
  /// Chunks without rows are left out.
  EpochOrder(std::span<const ChunkSize> chunks, const OrderOptions& options);

  /// Of seed and epoch: for what is done to rows by chance.
  uint64_t key() const { return key_; }
  /// Whether the rows of a window are mixed.
  bool mixes_rows() const { return mixes_rows_; }
  /// Rows of an epoch, as they are listed.
  int64_t rows() const { return rows_; }
  /// The chunks' numbers in the order in which they are read.
  const std::vector<int64_t>& chunks() const { return chunks_; }
  const std::vector<Window>& windows() const { return windows_; }
  /// Which of windows() has the row at `position`, 0 ≤ position < rows().
  int64_t window_of(int64_t position) const;
  /// Which of windows() has the chunk at `place` of chunks().
  int64_t window_with(int64_t place) const;
  /// The row at `position`, 0 ≤ position < rows(). `chunk` is its number in the source's list.
  RowPlace at(int64_t position) const;
  /// The order of a window's rows, whose chunks have `counts` rows each: which of them, counted through the window's
  /// chunks, comes first, second, …. Empty where they come as they stand.
  std::vector<uint32_t> mixed(const Window& window, std::span<const int64_t> counts) const;
  /// How its rows are mixed, if they are, which are `rows` in all.
  WindowMix mix_of(const Window& window, int64_t rows) const;

 private:
  uint64_t key_;
  bool mixes_rows_;
  int64_t rows_ = 0;
  std::vector<int64_t> chunks_;
  std::vector<int64_t> counts_;  // rows of the chunk of the same place, as listed
  std::vector<Window> windows_;
};

/// The `first`-th row of an order, first + 1, … as runs: of chunks with `counts` rows each, mixed as
/// EpochOrder::mixed() says. `chunk` is an index of `counts`.
std::vector<RowRun> runs_of(std::span<const int64_t> counts, std::span<const uint32_t> mixed, int64_t first,
                            int64_t rows);

}  // namespace paceline::data
