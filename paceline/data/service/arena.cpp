#include "paceline/data/service/arena.h"

#include <fcntl.h>

#include <algorithm>
#include <optional>

namespace paceline::data {
namespace {

constexpr int64_t kPage = 4096;  // slots begin on one: what is behind a slot can be given back
constexpr int64_t kIdleBytes = int64_t{64} << 20;

}  // namespace

arrow::Result<std::shared_ptr<Arena>> Arena::create(int64_t capacity, const std::shared_ptr<Ledger>& ledger) {
  const int64_t pages = std::max<int64_t>(1, capacity / kPage);
  ARROW_ASSIGN_OR_RAISE(SharedMemory memory,
                        SharedMemory::create("paceline_batches", static_cast<size_t>(pages * kPage)));
  std::shared_ptr<Arena> arena(new Arena(std::move(memory), ledger));
  ledger->add_spare(arena);
  return arena;
}

Arena::Arena(SharedMemory memory, std::shared_ptr<Ledger> ledger)
    : memory_(std::move(memory)), ledger_(std::move(ledger)) {
  fresh_.add(0, memory_.bytes().size());
}

arrow::Result<Slot> Arena::allocate(int64_t bytes) {
  const int64_t wanted = std::max<int64_t>(1, (bytes + kPage - 1) / kPage) * kPage;
  std::unique_lock lock(mutex_);
  const auto size = static_cast<uint64_t>(wanted);
  const std::optional<uint64_t> again = touched_.take(size);
  std::optional<uint64_t> found = again;
  if (!found) found = fresh_.take(size);
  if (!found) {
    give_back_beyond(0);
    found = fresh_.take(size);
  }
  if (!found) {
    return arrow::Status::OutOfMemory("a batch of ", bytes, " bytes has no room: the rank still holds ", used_.size(),
                                      " batches with ", used_bytes_, " of the ", capacity(),
                                      " bytes that this machine can hold; keep fewer, or copies of what is needed");
  }
  const auto offset = static_cast<int64_t>(*found);
  used_.emplace(offset, Used{wanted, Ledger::reserve(ledger_, wanted)});
  used_bytes_ += wanted;
  lock.unlock();
  if (!again) ledger_->trim_spare();
  return Slot{offset, bytes};
}

void Arena::free(int64_t offset) {
  {
    const std::lock_guard lock(mutex_);
    const auto slot = used_.find(offset);
    if (slot == used_.end()) return;
    const int64_t bytes = slot->second.bytes;
    used_bytes_ -= bytes;
    used_.erase(slot);
    touched_.add(static_cast<uint64_t>(offset), static_cast<uint64_t>(bytes));
    give_back_beyond(used_bytes_ + kIdleBytes);
  }
  ledger_->trim_spare();
}

int64_t Arena::keep_at_most(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  return give_back_beyond(bytes);
}

// Those behind first, so that slots gather in front.
int64_t Arena::give_back_beyond(int64_t bytes) {
  const auto kept = static_cast<uint64_t>(std::max<int64_t>(bytes, 0));
  while (touched_.bytes() > kept) {
    const auto [offset, size] = touched_.take_last((touched_.bytes() - kept + kPage - 1) / kPage * kPage);
    // Where it is refused, the memory stays touched, and counts no longer.
    (void)::fallocate(memory_.descriptor().get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      static_cast<off_t>(offset), static_cast<off_t>(size));
    fresh_.add(offset, size);
  }
  return static_cast<int64_t>(touched_.bytes());
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
  return used_bytes_ + static_cast<int64_t>(touched_.bytes());
}

}  // namespace paceline::data
