#include "paceline/data/memory/large_buffers.h"

#include <arrow/array/data.h>
#include <arrow/buffer.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>

#include "paceline/core/posix/forks.h"

namespace paceline::data {
namespace {

constexpr int64_t kPage = int64_t{2} << 20;

}  // namespace

class LargeBuffers::Buffer : public arrow::MutableBuffer {
 public:
  Buffer(std::shared_ptr<LargeBuffers> store, const Mapping& mapping, int64_t bytes)
      : arrow::MutableBuffer(mapping.begin, bytes), store_(std::move(store)), mapping_(mapping) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() override {
    if (home_.is_here()) {
      store_->give_back(mapping_);
    } else {
      munmap(mapping_.memory, static_cast<size_t>(mapping_.bytes));
    }
  }

 private:
  const std::shared_ptr<LargeBuffers> store_;
  const Mapping mapping_;
  const HomeProcess home_;
};

std::shared_ptr<LargeBuffers> LargeBuffers::make(std::shared_ptr<Ledger> ledger) {
  const std::shared_ptr<LargeBuffers> buffers(new LargeBuffers(ledger));
  ledger->add_spare(buffers);
  return buffers;
}

int64_t LargeBuffers::bytes_of(const arrow::RecordBatch& batch) {
  int64_t bytes = 0;
  const std::function<void(const arrow::ArrayData&)> add = [&](const arrow::ArrayData& data) {
    for (const auto& buffer : data.buffers) {
      if (dynamic_cast<const Buffer*>(buffer.get()) != nullptr) bytes += buffer->size();
    }
    for (const auto& child : data.child_data) add(*child);
  };
  for (const auto& column : batch.column_data()) add(*column);
  return bytes;
}

LargeBuffers::~LargeBuffers() {
  for (const Mapping& mapping : kept_) munmap(mapping.memory, static_cast<size_t>(mapping.bytes));
}

arrow::Result<std::shared_ptr<arrow::Buffer>> LargeBuffers::allocate(int64_t bytes, arrow::MemoryPool* pool) {
  if (bytes < kPage) {
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, arrow::AllocateBuffer(bytes, pool));
    return buffer;
  }
  ARROW_ASSIGN_OR_RAISE(const Mapping mapping, mapping_for(bytes));
  return std::make_shared<Buffer>(shared_from_this(), mapping, bytes);
}

arrow::Result<LargeBuffers::Mapping> LargeBuffers::mapping_for(int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    // One that is much larger would hold memory for nothing.
    const auto fits = [&](const Mapping& kept) {
      return kept.usable >= bytes && kept.usable <= bytes + bytes / 8 + kPage;
    };
    const auto found = std::ranges::find_if(kept_, fits);
    if (found != kept_.end()) {
      const Mapping mapping = *found;
      kept_.erase(found);
      kept_bytes_ -= mapping.usable;
      used_bytes_ += mapping.usable;
      return mapping;
    }
  }
  Mapping mapping{.bytes = bytes + kPage, .usable = bytes};
  void* const memory =
      mmap(nullptr, static_cast<size_t>(mapping.bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return arrow::Status::OutOfMemory("no memory for ", bytes, " bytes of rows: ", std::strerror(errno));
  }
  mapping.memory = static_cast<uint8_t*>(memory);
  mapping.begin = mapping.memory + (kPage - reinterpret_cast<uintptr_t>(memory) % kPage) % kPage;
  madvise(mapping.begin, static_cast<size_t>(bytes), MADV_HUGEPAGE);  // where it is refused, pages are small
  {
    const std::lock_guard lock(mutex_);
    used_bytes_ += mapping.usable;
  }
  ledger_->trim_spare();
  return mapping;
}

void LargeBuffers::give_back(const Mapping& mapping) {
  {
    const std::lock_guard lock(mutex_);
    used_bytes_ -= mapping.usable;
    kept_bytes_ += mapping.usable;
    kept_.push_back(mapping);
  }
  ledger_->trim_spare();
}

void LargeBuffers::expect(int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    expected_ += bytes;
  }
  if (bytes < 0) ledger_->trim_spare();
}

void LargeBuffers::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  keep_at_most(0);
}

// The oldest go first. What buffers are expected for is reserved, so it counts already.
int64_t LargeBuffers::keep_at_most(int64_t bytes) {
  std::vector<Mapping> unneeded;
  int64_t beyond = 0;
  {
    const std::lock_guard lock(mutex_);
    while (!kept_.empty() && (is_closed_ || kept_bytes_ > expected_ + bytes)) {
      kept_bytes_ -= kept_.front().usable;
      unneeded.push_back(kept_.front());
      kept_.erase(kept_.begin());
    }
    beyond = std::max<int64_t>(kept_bytes_ - expected_, 0);
  }
  for (const Mapping& mapping : unneeded) munmap(mapping.memory, static_cast<size_t>(mapping.bytes));
  return beyond;
}

namespace {

thread_local DecodesInto* decodes_into = nullptr;

}  // namespace

DecodesInto::DecodesInto(std::shared_ptr<LargeBuffers> buffers, int64_t expected)
    : buffers_(std::move(buffers)), expected_(expected), former_(std::exchange(decodes_into, this)) {
  buffers_->expect(expected_);
}

DecodesInto::~DecodesInto() {
  buffers_->expect(-expected_);
  decodes_into = former_;
}

std::shared_ptr<Ledger> ledger_of_this_thread() {
  return decodes_into == nullptr ? nullptr : decodes_into->buffers_->ledger();
}

arrow::Result<std::shared_ptr<arrow::Buffer>> allocate_decoded(int64_t bytes, arrow::MemoryPool* pool) {
  if (decodes_into != nullptr) {
    auto buffer = decodes_into->buffers_->allocate(bytes, pool);
    const int64_t expected = std::min(decodes_into->expected_, bytes);
    decodes_into->expected_ -= expected;
    decodes_into->buffers_->expect(-expected);
    return buffer;
  }
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, arrow::AllocateBuffer(bytes, pool));
  return buffer;
}

int64_t LargeBuffers::bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_ + kept_bytes_;
}

}  // namespace paceline::data
