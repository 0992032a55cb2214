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

// Windows by their number: read by threads, chunk by chunk, taken by the consumer, dropped when they are done.
class RowStream::ReadAhead {
 public:
  ReadAhead(std::shared_ptr<const Source> source, std::shared_ptr<const EpochOrder> order, int64_t window,
            const StreamOptions& options)
      : source_(std::move(source)),
        order_(std::move(order)),
        budget_(options.read_ahead_bytes),
        next_(window_at(window).first_chunk),
        needed_(next_) {
    for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { read_chunks(); });
  }

  ~ReadAhead() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  // Waits for a window.
  arrow::Result<Loaded> take(int64_t number) {
    const Window& window = window_at(number);
    std::unique_lock lock(mutex_);
    needed_ = std::max(needed_, window.first_chunk + window.chunks - 1);
    changed_.notify_all();
    while (threads_.empty() && next_ <= needed_) read_next(lock);
    changed_.wait(lock, [&] { return windows_.contains(number) && windows_.at(number).is_ready; });
    const Reading& reading = windows_.at(number);
    ARROW_RETURN_NOT_OK(reading.status);
    return reading.loaded;
  }

  // The consumer has done with the windows before `number`, or wants none of them.
  void drop_before(int64_t number) {
    {
      const std::lock_guard lock(mutex_);
      for (auto window = windows_.begin(); window != windows_.end() && window->first < number;) {
        // One that is still being read goes when that is done.
        const bool is_done = window->second.reads == 0;
        if (is_done) held_ -= window->second.bytes;
        window = is_done ? windows_.erase(window) : std::next(window);
      }
      next_ = std::max(next_, window_at(number).first_chunk);  // passed over
    }
    changed_.notify_all();
  }

 private:
  struct Reading {
    Loaded loaded;
    arrow::Status status;
    int64_t left = -1;  // chunks that are not read yet
    int64_t reads = 0;  // threads that are at it
    int64_t bytes = 0;  // held for it
    bool is_ready = false;
  };

  const Window& window_at(int64_t number) const { return order_->windows()[static_cast<size_t>(number)]; }

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
      read_next(lock);
    }
  }

  // Reads the chunk whose turn it is, without the lock meanwhile.
  void read_next(std::unique_lock<std::mutex>& lock) {
    const int64_t place = next_++;
    const int64_t number = order_->window_with(place);
    const Window& window = window_at(number);
    Reading& reading = windows_[number];
    if (reading.left < 0) {
      reading.left = window.chunks;
      reading.loaded.window = &window;
      reading.loaded.chunks.resize(static_cast<size_t>(window.chunks));
    }
    held_ += bytes_of(place);
    reading.bytes += bytes_of(place);
    ++reading.reads;
    lock.unlock();
    auto batch = source_->read(order_->chunks()[static_cast<size_t>(place)], order_->key());
    lock.lock();
    if (batch.ok()) {
      reading.loaded.chunks[static_cast<size_t>(place - window.first_chunk)] = std::move(*batch);
    } else if (reading.status.ok()) {
      reading.status = batch.status();
    }
    if (--reading.left == 0 && reading.status.ok()) {
      lock.unlock();
      arrow::Status status = complete(reading.loaded);
      lock.lock();
      reading.status = std::move(status);
    }
    --reading.reads;
    reading.is_ready = reading.left == 0 || !reading.status.ok();
    changed_.notify_all();
  }

  // Mixes the window, of which each chunk is there: no other thread has it any more.
  arrow::Status complete(Loaded& loaded) const {
    for (const auto& chunk : loaded.chunks) {
      loaded.counts.push_back(chunk->num_rows());
      loaded.rows += chunk->num_rows();
    }
    const std::vector<int64_t> mixed = order_->mixed(*loaded.window, loaded.counts);
    if (mixed.empty()) return arrow::Status::OK();
    ARROW_ASSIGN_OR_RAISE(auto whole, take_all(loaded.chunks, mixed, arrow::default_memory_pool()));
    loaded.chunks = {std::move(whole)};
    loaded.counts = {loaded.rows};
    return arrow::Status::OK();
  }

  const std::shared_ptr<const Source> source_;
  const std::shared_ptr<const EpochOrder> order_;
  const int64_t budget_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, Reading> windows_;
  int64_t held_ = 0;  // bytes of windows that are read, or being read
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

void RowStream::seek(const Position& position) {
  position_ = position;
  loaded_.clear();
  ahead_.reset();
}

int64_t RowStream::loaded_ahead() const {
  int64_t rows = -position_.row;
  for (const Loaded& loaded : loaded_) rows += loaded.rows;
  return loaded_.empty() ? 0 : rows;
}

// The window behind those that are loaded. There must be one.
arrow::Status RowStream::load_window() {
  const int64_t number = position_.window + static_cast<int64_t>(loaded_.size());
  if (ahead_ == nullptr) ahead_ = std::make_unique<ReadAhead>(source_, order_, number, options_);
  ahead_->drop_before(position_.window);
  ARROW_ASSIGN_OR_RAISE(Loaded loaded, ahead_->take(number));
  loaded_.push_back(std::move(loaded));
  return arrow::Status::OK();
}

// Moves on to the window that has the position's row, where that is in one of the next.
void RowStream::leave_windows() {
  while (!loaded_.empty() && position_.row >= loaded_.front().rows) {
    position_.row -= loaded_.front().rows;
    ++position_.window;
    loaded_.pop_front();
  }
}

arrow::Result<int64_t> RowStream::ahead(int64_t rows) {
  if (source_->counts_rows()) return std::min(rows, order_->rows() - position_.rows);
  while (loaded_ahead() < rows && position_.window + static_cast<int64_t>(loaded_.size()) < windows()) {
    ARROW_RETURN_NOT_OK(load_window());
  }
  return std::min(rows, loaded_ahead());
}

arrow::Result<int64_t> RowStream::left_of_window() {
  while (loaded_ahead() <= 0 && position_.window + static_cast<int64_t>(loaded_.size()) < windows()) {
    ARROW_RETURN_NOT_OK(load_window());
    leave_windows();
  }
  return loaded_.empty() ? 0 : loaded_.front().rows - position_.row;
}

arrow::Status RowStream::skip(int64_t rows) {
  ARROW_ASSIGN_OR_RAISE(rows, ahead(rows));
  position_.rows += rows;
  position_.row += rows;
  leave_windows();
  // Windows that are not loaded have as many rows as is listed; where they have not, ahead() has loaded them.
  while (loaded_.empty() && position_.window < windows() &&
         position_.row >= order_->windows()[static_cast<size_t>(position_.window)].rows && source_->counts_rows()) {
    position_.row -= order_->windows()[static_cast<size_t>(position_.window++)].rows;
  }
  return arrow::Status::OK();
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> RowStream::next(int64_t rows) {
  while (loaded_ahead() < rows && position_.window + static_cast<int64_t>(loaded_.size()) < windows()) {
    ARROW_RETURN_NOT_OK(load_window());
  }
  rows = std::min(rows, loaded_ahead());
  if (rows <= 0) return nullptr;
  std::vector<std::shared_ptr<arrow::RecordBatch>> chunks;
  std::vector<RowRun> runs;
  int64_t first = position_.row;
  int64_t left = rows;
  for (auto loaded = loaded_.begin(); left > 0; first = 0, ++loaded) {
    const int64_t wanted = std::min(left, loaded->rows - first);
    if (wanted <= 0) continue;
    left -= wanted;
    for (RowRun run : runs_of(loaded->counts, {}, first, wanted)) {
      run.chunk += static_cast<int64_t>(chunks.size());
      runs.push_back(run);
    }
    chunks.insert(chunks.end(), loaded->chunks.begin(), loaded->chunks.end());
  }
  ARROW_ASSIGN_OR_RAISE(auto batch, gather(chunks, runs, arrow::default_memory_pool()));
  position_.rows += rows;
  position_.row += rows;
  leave_windows();
  return batch;
}

}  // namespace paceline::data
