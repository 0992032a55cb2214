// The rows of an epoch in their order, out of windows that a pool of threads reads ahead (windows.h).
//
// What the stream gives depends on source, order and position alone: never on the number of threads, the budget or
// other streams of the same windows. It holds no window between calls, only some thousand rows where they are mixed, so
// a stream that nobody reads of pins hardly any memory.
//
// One thread calls the functions. Batches are the caller's, and may outlive the stream; a batch that is a slice of a
// chunk keeps that chunk in memory beyond the budget.
#pragma once

#include <arrow/result.h>

#include <deque>
#include <memory>
#include <vector>

#include "paceline/data/executor/windows.h"

namespace paceline::data {

/// How far an epoch is done. By window and row it can be found again without reading what stands before; `rows` is what
/// people count.
struct Position {
  int64_t rows = 0;    ///< that are done, in the epoch
  int64_t window = 0;  ///< of the order, in which the next row is
  int64_t row = 0;     ///< of that window, which comes next
  friend bool operator==(const Position&, const Position&) = default;
};

/// For a stream that has threads and a budget of its own.
struct StreamOptions {
  Position position;  ///< where to begin
  /// That read and decode. 0: nothing is read ahead, and the thread that calls next() reads.
  int threads = 2;
  int64_t read_ahead_bytes = kDefaultBudget;  ///< of windows that are there or being read
};

/// Windows that only one stream uses.
std::shared_ptr<Windows> own_windows(std::shared_ptr<const Source> source, EpochOrder order,
                                     const StreamOptions& options);

/// Rows of a source in an order, batch by batch.
///
///     RowStream rows(source, EpochOrder(source->chunks(), {.shuffle = Shuffle::rows}), {.threads = 4});
///     ARROW_ASSIGN_OR_RAISE(auto batch, rows.next(256));  // the first 256 rows
class RowStream {
 public:
  /// A batch, and what it keeps in memory: as long as that is held, the ledger counts it.
  struct Rows {
    std::shared_ptr<arrow::RecordBatch> batch;
    std::vector<std::shared_ptr<const LoadedWindow>> windows;
  };

  explicit RowStream(std::shared_ptr<Windows> windows, const Position& position = {}, Reading reading = Reading::ahead);
  /// `order`: of the source's chunks.
  RowStream(std::shared_ptr<const Source> source, EpochOrder order, const StreamOptions& options);
  RowStream(const RowStream&) = delete;
  RowStream& operator=(const RowStream&) = delete;

  /// The next `rows` rows, or those that are left; a null pointer at the end. An error of the source, once its rows are
  /// due, is given in their place, and again at each later call.
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> next(int64_t rows);
  arrow::Result<Rows> next_held(int64_t rows);
  /// Passes over the next `rows` rows, or those that are left. Nothing is read for it, unless the source does not count
  /// its rows.
  arrow::Status skip(int64_t rows);
  /// How many of the next `rows` rows there are. The same holds of what is read.
  arrow::Result<int64_t> ahead(int64_t rows);
  /// How many rows of the window in which the next row is there are from that on; 0 at the end.
  arrow::Result<int64_t> left_of_window();
  /// From now on. Any thread may call it.
  void set_reading(Reading reading) { cursor_.set_reading(reading); }
  /// As of Cursor.
  bool is_near_end() { return cursor_.is_near_end(); }
  /// Goes on at `position`, one that position() gave in a stream of the same source and order.
  void seek(const Position& position);
  const Position& position() const { return position_; }
  const EpochOrder& order() const { return windows_->order(); }
  const std::shared_ptr<Windows>& windows() const { return windows_; }

 private:
  using Loaded = std::shared_ptr<const LoadedWindow>;
  // A window whose rows are counted, and itself if it is still there.
  struct Counted {
    int64_t rows = 0;
    std::weak_ptr<const LoadedWindow> loaded;
  };

  arrow::Status count_window();
  arrow::Result<Loaded> loaded(size_t window);
  arrow::Status add_bins(const MixedBins& bins, int64_t first, int64_t rows,
                         std::vector<std::shared_ptr<arrow::RecordBatch>>& chunks, std::vector<RowRun>& runs);
  void leave_windows();

  const std::shared_ptr<Windows> windows_;
  Position position_;
  std::deque<Counted> counted_;             // windows from position_.window on
  int64_t rows_counted_ = 0;                // in them
  std::shared_ptr<const MixedRows> mixed_;  // of which the last rows were
  Cursor cursor_;
};

}  // namespace paceline::data
