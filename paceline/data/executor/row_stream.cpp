#include "paceline/data/executor/row_stream.h"

#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>

#include <algorithm>

#include "paceline/data/executor/read_pool.h"
#include "paceline/data/memory/reading_memory.h"
#include "paceline/data/rows/gather.h"

namespace paceline::data {

std::shared_ptr<Windows> own_windows(std::shared_ptr<const Source> source, EpochOrder order,
                                     const StreamOptions& options) {
  return std::make_shared<Windows>(std::move(source), std::move(order),
                                   std::make_shared<ReadPool>(options.threads, options.read_ahead_bytes));
}

RowStream::RowStream(std::shared_ptr<Windows> windows, const Position& position, Reading reading)
    : windows_(std::move(windows)), position_(position), cursor_(windows_, position.window, reading) {}

RowStream::RowStream(std::shared_ptr<const Source> source, EpochOrder order, const StreamOptions& options)
    : RowStream(own_windows(std::move(source), std::move(order), options), options.position) {}

void RowStream::seek(const Position& position) {
  position_ = position;
  counted_.clear();
  rows_counted_ = 0;
  mixed_.reset();
  cursor_.move_to(position.window);
}

// The window behind those that are counted. There must be one.
arrow::Status RowStream::count_window() {
  const int64_t number = position_.window + static_cast<int64_t>(counted_.size());
  Counted counted{.rows = order().windows()[static_cast<size_t>(number)].rows, .loaded = {}};
  if (!windows_->source().counts_rows()) {
    ARROW_ASSIGN_OR_RAISE(const Loaded loaded, cursor_.take(number));
    counted = {.rows = loaded->rows, .loaded = loaded};
  }
  if (counted_.empty() && position_.row > counted.rows) {
    return arrow::Status::Invalid("there is no such place in the epoch: row ", position_.row, " of window ", number,
                                  ", which has ", counted.rows, " rows; is the state one that state_dict() gave?");
  }
  rows_counted_ += counted.rows;
  counted_.push_back(std::move(counted));
  return arrow::Status::OK();
}

// The window of that place in counted_.
arrow::Result<RowStream::Loaded> RowStream::loaded(size_t window) {
  Loaded loaded = counted_[window].loaded.lock();
  if (loaded != nullptr) return loaded;
  ARROW_ASSIGN_OR_RAISE(loaded, cursor_.take(position_.window + static_cast<int64_t>(window)));
  counted_[window].loaded = loaded;
  return loaded;
}

// Moves on to the window that has the position's row, where that is in one of the next.
void RowStream::leave_windows() {
  while (!counted_.empty() && position_.row >= counted_.front().rows) {
    position_.row -= counted_.front().rows;
    ++position_.window;
    rows_counted_ -= counted_.front().rows;
    counted_.pop_front();
  }
  cursor_.move_to(position_.window);
}

arrow::Result<int64_t> RowStream::ahead(int64_t rows) {
  const auto windows = static_cast<int64_t>(order().windows().size());
  while (rows_counted_ - position_.row < rows && position_.window + static_cast<int64_t>(counted_.size()) < windows) {
    ARROW_RETURN_NOT_OK(count_window());
  }
  return std::min(rows, std::max<int64_t>(rows_counted_ - position_.row, 0));
}

arrow::Result<int64_t> RowStream::left_of_window() {
  ARROW_ASSIGN_OR_RAISE(const int64_t there, ahead(1));
  if (there == 0) return 0;
  leave_windows();
  return counted_.front().rows - position_.row;
}

arrow::Status RowStream::skip(int64_t rows) {
  ARROW_ASSIGN_OR_RAISE(rows, ahead(rows));
  position_.rows += rows;
  position_.row += rows;
  leave_windows();
  return arrow::Status::OK();
}

// The window's rows from `first` on.
arrow::Status RowStream::add_bins(const MixedBins& bins, int64_t first, int64_t rows,
                                  std::vector<std::shared_ptr<arrow::RecordBatch>>& chunks, std::vector<RowRun>& runs) {
  for (const int64_t end = first + rows; first < end;) {
    ARROW_ASSIGN_OR_RAISE(mixed_, bins.at(first));
    const int64_t of_bin = first - mixed_->first;
    const int64_t count = std::min(end - first, mixed_->batch->num_rows() - of_bin);
    runs.push_back({std::ssize(chunks), of_bin, count});
    chunks.push_back(mixed_->batch);
    first += count;
  }
  return arrow::Status::OK();
}

arrow::Result<RowStream::Rows> RowStream::next_held(int64_t rows) {
  ARROW_ASSIGN_OR_RAISE(rows, ahead(rows));
  Rows next;
  if (rows == 0) return next;
  cursor_.move_to(position_.window);  // an error may have come behind it
  std::vector<std::shared_ptr<arrow::RecordBatch>> chunks;
  std::vector<RowRun> runs;
  int64_t first = position_.row;
  int64_t left = rows;
  for (size_t window = 0; left > 0; ++window) {
    const int64_t wanted = std::min(left, counted_[window].rows - first);
    if (wanted > 0) {
      const int64_t number = position_.window + static_cast<int64_t>(window);
      if (!runs.empty() && !cursor_.is_there(number)) {
        // The windows before it make room for it, so their rows are copied.
        ARROW_ASSIGN_OR_RAISE(auto copied, gather(chunks, runs, reading_memory(), /*copies=*/true));
        runs = {{0, 0, copied->num_rows()}};
        chunks = {std::move(copied)};
        mixed_.reset();
        next.windows.clear();
        cursor_.move_to(number);
      }
      ARROW_ASSIGN_OR_RAISE(Loaded loaded, this->loaded(window));
      if (loaded->bins != nullptr) {
        ARROW_RETURN_NOT_OK(add_bins(*loaded->bins, first, wanted, chunks, runs));
      } else {
        for (RowRun run : loaded->runs(first, wanted)) {
          run.chunk += static_cast<int64_t>(chunks.size());
          runs.push_back(run);
        }
        chunks.insert(chunks.end(), loaded->chunks.begin(), loaded->chunks.end());
      }
      next.windows.push_back(std::move(loaded));
      left -= wanted;
    }
    first = std::max<int64_t>(first - counted_[window].rows, 0);
  }
  ARROW_ASSIGN_OR_RAISE(next.batch, gather(chunks, runs, reading_memory()));
  position_.rows += rows;
  position_.row += rows;
  leave_windows();
  return next;
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> RowStream::next(int64_t rows) {
  ARROW_ASSIGN_OR_RAISE(Rows next, next_held(rows));
  return std::move(next.batch);
}

}  // namespace paceline::data
