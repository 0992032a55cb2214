#include "paceline/data/service/arena.h"

#include <fcntl.h>

#include <algorithm>
#include <iterator>

namespace paceline::data {
namespace {

constexpr int64_t kPage = 4096;  // slots begin on one: what is behind a slot can be given back
constexpr int64_t kIdleBytes = int64_t{64} << 20;

}  // namespace

arrow::Result<std::shared_ptr<Arena>> Arena::create(int64_t capacity, std::shared_ptr<Ledger> ledger) {
  const int64_t pages = std::max<int64_t>(1, capacity / kPage);
  ARROW_ASSIGN_OR_RAISE(SharedMemory memory,
                        SharedMemory::create("paceline_batches", static_cast<size_t>(pages * kPage)));
  const std::shared_ptr<Arena> arena(new Arena(std::move(memory), ledger));
  ledger->add_spare(arena);
  return arena;
}

Arena::Arena(SharedMemory memory, std::shared_ptr<Ledger> ledger)
    : memory_(std::move(memory)), ledger_(std::move(ledger)), fresh_{{0, capacity()}} {}

// Joins it with its neighbours.
void Arena::add(Ranges& ranges, int64_t offset, int64_t bytes) {
  auto next = ranges.lower_bound(offset);
  if (next != ranges.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = ranges.erase(next);
  }
  if (next != ranges.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  ranges.emplace(offset, bytes);
}

// The offset of the first that fits.
std::optional<int64_t> Arena::take(Ranges& ranges, int64_t bytes) {
  const auto found = std::ranges::find_if(ranges, [bytes](const auto& range) { return range.second >= bytes; });
  if (found == ranges.end()) return std::nullopt;
  const auto [offset, size] = *found;
  ranges.erase(found);
  if (size > bytes) ranges.emplace(offset + bytes, size - bytes);
  return offset;
}

arrow::Result<Slot> Arena::allocate(int64_t bytes) {
  const int64_t wanted = std::max<int64_t>(1, (bytes + kPage - 1) / kPage) * kPage;
  std::unique_lock lock(mutex_);
  const std::optional<int64_t> again = take(touched_, wanted);
  std::optional<int64_t> offset = again;
  if (again) touched_bytes_ -= wanted;
  if (!offset) offset = take(fresh_, wanted);
  if (!offset) {
    give_back_beyond(0);
    offset = take(fresh_, wanted);
  }
  if (!offset) {
    return arrow::Status::OutOfMemory("a batch of ", bytes, " bytes has no room: the rank still holds ", used_.size(),
                                      " batches with ", used_bytes_, " of the ", capacity(),
                                      " bytes that this machine can hold; keep fewer, or copies of what is needed");
  }
  used_.emplace(*offset, Used{wanted, Ledger::reserve(ledger_, wanted)});
  used_bytes_ += wanted;
  lock.unlock();
  if (!again) ledger_->trim_spare();
  return Slot{*offset, bytes};
}

void Arena::free(int64_t offset) {
  {
    const std::lock_guard lock(mutex_);
    const auto slot = used_.find(offset);
    if (slot == used_.end()) return;
    const int64_t bytes = slot->second.bytes;
    used_bytes_ -= bytes;
    used_.erase(slot);
    add(touched_, offset, bytes);
    touched_bytes_ += bytes;
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
  while (touched_bytes_ > bytes) {
    const auto last = std::prev(touched_.end());
    const int64_t size = std::min(last->second, (touched_bytes_ - bytes + kPage - 1) / kPage * kPage);
    const int64_t offset = last->first + last->second - size;
    // Where it is refused, the memory stays touched, and counts no longer.
    (void)::fallocate(memory_.descriptor().get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, size);
    last->second -= size;
    if (last->second == 0) touched_.erase(last);
    touched_bytes_ -= size;
    add(fresh_, offset, size);
  }
  return touched_bytes_;
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
  return used_bytes_ + touched_bytes_;
}

}  // namespace paceline::data
