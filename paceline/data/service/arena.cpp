#include "paceline/data/service/arena.h"

#include <fcntl.h>

#include <algorithm>
#include <iterator>

namespace paceline::data {
namespace {

constexpr int64_t kPage = 4096;  // slots begin on one: what is behind a slot can be given back
constexpr int64_t kIdleBytes = int64_t{64} << 20;

}  // namespace

arrow::Result<std::unique_ptr<Arena>> Arena::create(int64_t capacity, std::shared_ptr<Ledger> ledger) {
  const int64_t pages = std::max<int64_t>(1, capacity / kPage);
  ARROW_ASSIGN_OR_RAISE(SharedMemory memory,
                        SharedMemory::create("paceline_batches", static_cast<size_t>(pages * kPage)));
  return std::unique_ptr<Arena>(new Arena(std::move(memory), std::move(ledger)));
}

Arena::Arena(SharedMemory memory, std::shared_ptr<Ledger> ledger)
    : memory_(std::move(memory)), ledger_(std::move(ledger)), free_{{0, capacity()}} {}

arrow::Result<Slot> Arena::allocate(int64_t bytes) {
  const int64_t wanted = std::max<int64_t>(1, (bytes + kPage - 1) / kPage) * kPage;
  const std::lock_guard lock(mutex_);
  // The first that fits: what has been touched already is used again.
  const auto found = std::ranges::find_if(free_, [wanted](const auto& range) { return range.second >= wanted; });
  if (found == free_.end()) {
    return arrow::Status::OutOfMemory("a batch of ", bytes, " bytes has no room: the rank still holds ", used_.size(),
                                      " batches with ", used_bytes_, " of the ", capacity(),
                                      " bytes that this machine can hold; keep fewer, or copies of what is needed");
  }
  const auto [offset, size] = *found;
  free_.erase(found);
  if (size > wanted) free_.emplace(offset + wanted, size - wanted);
  used_.emplace(offset, Used{wanted, Ledger::reserve(ledger_, wanted)});
  used_bytes_ += wanted;
  touched_ = std::max(touched_, offset + wanted);
  return Slot{offset, bytes};
}

void Arena::free(int64_t offset) {
  const std::lock_guard lock(mutex_);
  const auto slot = used_.find(offset);
  if (slot == used_.end()) return;
  int64_t size = slot->second.bytes;
  used_bytes_ -= size;
  used_.erase(slot);
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + size == next->first) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      free_.erase(before);
    }
  }
  free_.emplace(offset, size);
  const bool is_last = offset + size == capacity();
  if (!is_last || touched_ - offset <= used_bytes_ + kIdleBytes) return;
  if (::fallocate(memory_.descriptor().get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, touched_ - offset) ==
      0) {
    touched_ = offset;
  }
}

std::shared_ptr<arrow::MutableBuffer> Arena::buffer_of(const Slot& slot) const {
  return std::make_shared<arrow::MutableBuffer>(reinterpret_cast<uint8_t*>(memory_.bytes().data()) + slot.offset,
                                                slot.bytes);
}

int64_t Arena::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

int64_t Arena::touched_bytes() const {
  const std::lock_guard lock(mutex_);
  return touched_;
}

}  // namespace paceline::data
