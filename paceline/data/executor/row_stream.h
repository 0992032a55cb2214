// The rows of an epoch in their order, read ahead by threads within a budget of bytes.
//
// Threads read the chunks of the order's windows one after another, as many at once as the budget has room for. A chunk
// that the consumer waits for is read beyond the budget too if nothing else can be freed, so that a chunk larger than
// the budget is slow, not a deadlock. What the stream gives depends on source, order and position alone: never on the
// number of threads or the budget.
//
// One thread calls the functions. Batches are the caller's, and may outlive the stream; a batch that is a slice of a
// chunk keeps that chunk in memory beyond the budget.
#pragma once

#include <arrow/result.h>

#include <deque>
#include <memory>

#include "paceline/data/order/epoch_order.h"
#include "paceline/data/source/source.h"

namespace paceline::data {

/// How far an epoch is done. By window and row it can be found again without reading what stands before; `rows` is what
/// people count.
struct Position {
  int64_t rows = 0;    ///< that are done, in the epoch
  int64_t window = 0;  ///< of the order, in which the next row is
  int64_t row = 0;     ///< of that window, which comes next
  friend bool operator==(const Position&, const Position&) = default;
};

struct StreamOptions {
  Position position;  ///< where to begin
  /// That read and decode. 0: nothing is read ahead, and the thread that calls next() reads.
  int threads = 2;
  int64_t read_ahead_bytes = int64_t{256} << 20;  ///< of chunks that are read or being read, as ChunkSize counts them
};

/// Rows of a source in an order, batch by batch.
///
///     RowStream rows(source, EpochOrder(source->chunks(), {.shuffle = Shuffle::rows}), {.threads = 4});
///     ARROW_ASSIGN_OR_RAISE(auto batch, rows.next(256));  // the first 256 rows
class RowStream {
 public:
  /// `order`: of the source's chunks.
  RowStream(std::shared_ptr<const Source> source, EpochOrder order, const StreamOptions& options);
  /// Ends the threads; a read that is under way is waited for.
  ~RowStream();
  RowStream(const RowStream&) = delete;
  RowStream& operator=(const RowStream&) = delete;

  /// The next `rows` rows, or those that are left; a null pointer at the end. An error of the source, once its rows are
  /// due, is given in their place, and again at each later call.
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> next(int64_t rows);
  /// Passes over the next `rows` rows, or those that are left. Nothing is read for it, unless the source does not count
  /// its rows.
  arrow::Status skip(int64_t rows);
  /// How many of the next `rows` rows there are. The same holds of what is read.
  arrow::Result<int64_t> ahead(int64_t rows);
  /// How many rows of the window in which the next row is there are from that on; 0 at the end.
  arrow::Result<int64_t> left_of_window();
  /// Goes on at `position`, one that position() gave in a stream of the same source and order.
  void seek(const Position& position);
  const Position& position() const { return position_; }
  const EpochOrder& order() const { return *order_; }

 private:
  class ReadAhead;
  // A window in memory: its rows in their order.
  struct Loaded {
    const Window* window = nullptr;
    std::vector<std::shared_ptr<arrow::RecordBatch>> chunks;  // one, where the rows are mixed
    std::vector<int64_t> counts;                              // rows of each
    int64_t rows = 0;
  };

  int64_t windows() const { return static_cast<int64_t>(order_->windows().size()); }
  int64_t loaded_ahead() const;
  arrow::Status load_window();
  void leave_windows();

  const std::shared_ptr<const Source> source_;
  const std::shared_ptr<const EpochOrder> order_;
  const StreamOptions options_;
  Position position_;
  std::deque<Loaded> loaded_;  // windows from position_.window on
  std::unique_ptr<ReadAhead> ahead_;
};

}  // namespace paceline::data
