// BatchPipeline: threads that load batches ahead and hand them over in order.
//
// next() belongs to one consumer. Threads begin a batch as soon as there is room for it and sleep otherwise; each
// computes alone, without LibTorch's intra-op threads. An exception of the load surfaces at next() of its batch.
// Destruction ends the threads: each finishes at most the batch it is at.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace paceline::loader {

/// From now on the calling thread computes without a team of LibTorch's intra-op threads: each thread would have one of
/// its own, of as many threads as the training thread's.
void compute_alone();

template <class Batch>
class BatchPipeline {
 public:
  /// Loads batch number `batch` on thread number `worker`; calls of different workers run at the same time.
  using Load = std::function<Batch(int64_t worker, int64_t batch)>;

  /// For batches [first, end). `workers` threads; 0 loads inside next(). At most `ahead` ≥ 1 batches wait or are
  /// loaded.
  BatchPipeline(Load load, int64_t first, int64_t end, int64_t workers, int64_t ahead)
      : load_(std::move(load)), end_(end), claimed_(first), taken_(first), slots_(static_cast<size_t>(ahead)) {
    for (int64_t worker = 0; worker < workers; ++worker) {
      threads_.emplace_back([this, worker] { run(worker); });
    }
  }
  ~BatchPipeline() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopped_ = true;
    }
    room_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  BatchPipeline(const BatchPipeline&) = delete;
  BatchPipeline& operator=(const BatchPipeline&) = delete;

  /// The next batch in order; not to be called beyond the last. Waits for it; throws what its load threw.
  Batch next() {
    if (threads_.empty()) return load_(0, taken_++);
    Slot slot;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      Slot& mine = slot_of(taken_);
      ready_.wait(lock, [&mine] { return mine.batch || mine.error; });
      slot = std::exchange(mine, Slot{});
      ++taken_;
    }
    room_.notify_one();
    if (slot.error) std::rethrow_exception(slot.error);
    return *std::move(slot.batch);
  }

 private:
  struct Slot {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };

  Slot& slot_of(int64_t batch) { return slots_[static_cast<size_t>(batch) % slots_.size()]; }
  bool has_room() const { return claimed_ < taken_ + static_cast<int64_t>(slots_.size()); }

  void run(int64_t worker) {
    compute_alone();
    while (true) {
      int64_t batch = 0;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        room_.wait(lock, [this] { return stopped_ || claimed_ == end_ || has_room(); });
        if (stopped_ || claimed_ == end_) return;
        batch = claimed_++;
      }
      Slot slot;
      try {
        slot.batch.emplace(load_(worker, batch));
      } catch (...) {
        slot.error = std::current_exception();
      }
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        slot_of(batch) = std::move(slot);
      }
      ready_.notify_one();
    }
  }

  const Load load_;
  const int64_t end_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable room_;
  std::condition_variable ready_;
  int64_t claimed_;  // next batch that a thread begins
  int64_t taken_;    // next batch that next() gives
  std::vector<Slot> slots_;
  bool stopped_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace paceline::loader
