#include "paceline/data/memory/reading_memory.h"

#include <arrow/memory_pool.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "paceline/data/memory/kept_pages.h"

namespace paceline::data {
namespace {

class ReadingMemory : public arrow::MemoryPool {
 public:
  using arrow::MemoryPool::Allocate;
  using arrow::MemoryPool::Free;
  using arrow::MemoryPool::Reallocate;

  arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t** out) override {
    if (!is_in_pages(size, alignment)) return small_->Allocate(size, alignment, out);
    uint8_t* const block = kept_pages()->allocate(size);
    if (block == nullptr) return out_of_memory(size);
    *out = block;
    count(size);
    return arrow::Status::OK();
  }

  arrow::Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment, uint8_t** memory) override {
    const bool was_in_pages = is_in_pages(old_size, alignment);
    if (!was_in_pages && !is_in_pages(new_size, alignment)) {
      return small_->Reallocate(old_size, new_size, alignment, memory);
    }
    if (was_in_pages && is_in_pages(new_size, alignment)) {
      uint8_t* const block = kept_pages()->resize(*memory, old_size, new_size);
      if (block == nullptr) return out_of_memory(new_size);
      *memory = block;
      count(new_size - old_size);
      return arrow::Status::OK();
    }
    uint8_t* moved = nullptr;
    ARROW_RETURN_NOT_OK(Allocate(new_size, alignment, &moved));
    std::memcpy(moved, *memory, static_cast<size_t>(std::min(old_size, new_size)));
    Free(*memory, old_size, alignment);
    *memory = moved;
    return arrow::Status::OK();
  }

  void Free(uint8_t* memory, int64_t size, int64_t alignment) override {
    if (!is_in_pages(size, alignment)) return small_->Free(memory, size, alignment);
    count(-size);
    kept_pages()->free(memory, size);
  }

  void ReleaseUnused() override {
    small_->ReleaseUnused();
    kept_pages()->keep_at_most(0);
  }
  int64_t bytes_allocated() const override { return small_->bytes_allocated() + in_pages_; }
  int64_t total_bytes_allocated() const override { return small_->total_bytes_allocated() + total_; }
  int64_t num_allocations() const override { return small_->num_allocations() + allocations_; }
  int64_t max_memory() const override { return small_->max_memory() + most_in_pages_; }
  std::string backend_name() const override { return small_->backend_name(); }

 private:
  static constexpr int64_t kAlignmentOfPages = 4096;

  bool is_in_pages(int64_t size, int64_t alignment) const {
    return size >= KeptPages::kSmallest && alignment <= kAlignmentOfPages;
  }

  static arrow::Status out_of_memory(int64_t size) {
    return arrow::Status::OutOfMemory("no memory for ", size, " bytes of rows: ", std::strerror(errno));
  }

  void count(int64_t bytes) {
    const int64_t now = in_pages_ += bytes;
    if (bytes <= 0) return;
    total_ += bytes;
    ++allocations_;
    for (int64_t most = most_in_pages_; now > most && !most_in_pages_.compare_exchange_weak(most, now);) {
    }
  }

  arrow::MemoryPool* const small_ = arrow::default_memory_pool();
  std::atomic<int64_t> in_pages_ = 0;
  std::atomic<int64_t> most_in_pages_ = 0;
  std::atomic<int64_t> total_ = 0;
  std::atomic<int64_t> allocations_ = 0;
};

}  // namespace

arrow::MemoryPool* reading_memory() {
  static arrow::MemoryPool* const pool =
      std::getenv("ARROW_DEFAULT_MEMORY_POOL") != nullptr ? arrow::default_memory_pool() : new ReadingMemory();
  return pool;
}

}  // namespace paceline::data
