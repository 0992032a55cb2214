// The rows of an epoch in their order, read ahead by threads within a budget of bytes.
//
// Threads read the chunks of the order's windows one after another, as many at once as the budget has room for. A chunk
// that the consumer waits for is read beyond the budget too if nothing else can be freed, so that a chunk larger than
// the budget is slow, not a deadlock. What the stream gives depends on source, order and position alone: never on the
// number of threads or the budget.
//
// One thread calls next(). Batches are the caller's, and may outlive the stream; a batch that is a slice of a chunk
// keeps that chunk in memory beyond the budget.
#pragma once

#include <arrow/result.h>

#include <memory>

#include "paceline/data/order/epoch_order.h"
#include "paceline/data/source/source.h"

namespace paceline::data {

struct StreamOptions {
  int64_t position = 0;                           ///< rows of the order that are done; the first to give
  int threads = 2;                                ///< that read and decode, ≥ 1
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

  /// The next `rows` rows, or those that are left; none at the end. An error of the source, once its rows are due, is
  /// given in their place, and again at each later call.
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> next(int64_t rows);
  /// Goes on with the row at `position` of the order, without reading the windows before it.
  void skip_to(int64_t position);
  int64_t position() const { return position_; }

 private:
  class ReadAhead;

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> within_window(int64_t rows);

  const std::shared_ptr<const Source> source_;
  const std::shared_ptr<const EpochOrder> order_;
  const StreamOptions options_;
  int64_t position_;
  int64_t window_ = -1;  // whose chunks loaded_ has
  std::vector<std::shared_ptr<arrow::RecordBatch>> loaded_;
  std::unique_ptr<ReadAhead> ahead_;
};

}  // namespace paceline::data
