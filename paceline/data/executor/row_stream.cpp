#include "paceline/data/executor/row_stream.h"

#include <arrow/array.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "paceline/data/executor/gather.h"

namespace paceline::data {

// Chunks by their place in the order: read by threads, taken by the consumer, dropped when its window is done.
class RowStream::ReadAhead {
 public:
  using Batch = arrow::Result<std::shared_ptr<arrow::RecordBatch>>;

  ReadAhead(std::shared_ptr<const Source> source, std::shared_ptr<const EpochOrder> order, int64_t first_chunk,
            const StreamOptions& options)
      : source_(std::move(source)),
        order_(std::move(order)),
        budget_(options.read_ahead_bytes),
        next_(first_chunk),
        needed_(first_chunk) {
    for (int i = 0; i < std::max(options.threads, 1); ++i) threads_.emplace_back([this] { read_chunks(); });
  }

  ~ReadAhead() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  // Waits for the chunk at `place` of the order.
  Batch take(int64_t place) {
    std::unique_lock lock(mutex_);
    needed_ = std::max(needed_, place);
    changed_.notify_all();
    changed_.wait(lock, [&] { return read_.contains(place); });
    return read_.at(place);
  }

  // The consumer has done with the chunks before `place`.
  void drop_before(int64_t place) {
    {
      const std::lock_guard lock(mutex_);
      for (auto chunk = read_.begin(); chunk != read_.end() && chunk->first < place; chunk = read_.erase(chunk)) {
        held_ -= bytes_of(chunk->first);
      }
    }
    changed_.notify_all();
  }

 private:
  int64_t bytes_of(int64_t place) const {
    const int64_t chunk = order_->chunks()[static_cast<size_t>(place)];
    return source_->chunks()[static_cast<size_t>(chunk)].bytes;
  }

  bool may_read() const { return next_ <= needed_ || held_ == 0 || held_ + bytes_of(next_) <= budget_; }

  void read_chunks() {
    const auto count = static_cast<int64_t>(order_->chunks().size());
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopped_ || next_ == count || may_read(); });
      if (stopped_ || next_ == count) return;
      const int64_t place = next_++;
      held_ += bytes_of(place);
      lock.unlock();
      Batch batch = source_->read(order_->chunks()[static_cast<size_t>(place)]);
      lock.lock();
      read_.emplace(place, std::move(batch));
      changed_.notify_all();
    }
  }

  const std::shared_ptr<const Source> source_;
  const std::shared_ptr<const EpochOrder> order_;
  const int64_t budget_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, Batch> read_;
  int64_t held_ = 0;  // bytes of chunks that are read, or being read
  int64_t next_;      // place of the chunk that is read next
  int64_t needed_;    // the last place that the consumer waits for
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

RowStream::RowStream(std::shared_ptr<const Source> source, EpochOrder order, const StreamOptions& options)
    : source_(std::move(source)),
      order_(std::make_shared<const EpochOrder>(std::move(order))),
      options_(options),
      position_(options.position) {}

RowStream::~RowStream() = default;

void RowStream::skip_to(int64_t position) {
  position_ = position;
  window_ = -1;
  loaded_.clear();
  ahead_.reset();
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> RowStream::next(int64_t rows) {
  arrow::RecordBatchVector parts;
  while (rows > 0 && position_ < order_->rows()) {
    ARROW_ASSIGN_OR_RAISE(auto part, within_window(rows));
    rows -= part->num_rows();
    position_ += part->num_rows();
    parts.push_back(std::move(part));
  }
  if (parts.empty()) return arrow::RecordBatch::MakeEmpty(source_->schema());
  if (parts.size() == 1) return parts.front();
  std::vector<RowPlace> all;
  for (size_t part = 0; part < parts.size(); ++part) {
    for (int64_t row = 0; row < parts[part]->num_rows(); ++row) all.push_back({static_cast<int64_t>(part), row});
  }
  return gather(parts, all, arrow::default_memory_pool());
}

// The next rows, as many as are in the window that has the position.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> RowStream::within_window(int64_t rows) {
  const int64_t number = order_->window_of(position_);
  const Window& window = order_->windows()[static_cast<size_t>(number)];
  if (number != window_) {
    loaded_.clear();
    window_ = -1;
    if (ahead_ == nullptr) ahead_ = std::make_unique<ReadAhead>(source_, order_, window.first_chunk, options_);
    ahead_->drop_before(window.first_chunk);
    for (int64_t place = window.first_chunk; place < window.first_chunk + window.chunks; ++place) {
      ARROW_ASSIGN_OR_RAISE(auto batch, ahead_->take(place));
      loaded_.push_back(std::move(batch));
    }
    window_ = number;
  }
  rows = std::min(rows, window.first + window.rows - position_);
  return gather(loaded_, order_->within(window, position_, rows), arrow::default_memory_pool());
}

}  // namespace paceline::data
