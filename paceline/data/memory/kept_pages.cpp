#include "paceline/data/memory/kept_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "paceline/data/memory/decoding.h"

namespace paceline::data {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kLargePage = int64_t{2} << 20;
constexpr int64_t kSizesOfDoubling = 32;  // so a block is at most 3 % larger than what it is for

int64_t size_for(int64_t bytes) {
  const auto step =
      std::max(static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes))) / kSizesOfDoubling, kPage);
  return (bytes + step - 1) / step * step;
}

void unmap(uint8_t* begin, int64_t bytes) {
  if (bytes > 0) ::munmap(begin, static_cast<size_t>(bytes));
}

uint8_t* map(int64_t bytes) {
  const bool is_large = bytes >= kLargePage;
  const int64_t mapped = bytes + (is_large ? kLargePage : 0);
  void* const memory =
      ::mmap(nullptr, static_cast<size_t>(mapped), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<uint8_t*>(memory);
  if (!is_large) return begin;
  const int64_t before =
      (kLargePage - static_cast<int64_t>(reinterpret_cast<uintptr_t>(begin) % kLargePage)) % kLargePage;
  unmap(begin, before);
  unmap(begin + before + bytes, mapped - before - bytes);
  ::madvise(begin + before, static_cast<size_t>(bytes), MADV_HUGEPAGE);  // where it is refused, pages are small
  return begin + before;
}

}  // namespace

uint8_t* KeptPages::allocate(int64_t bytes) {
  const int64_t size = size_for(bytes);
  Own& own = *own_;
  Decoding::has_allocated(size);
  {
    const std::lock_guard lock(own.mutex);
    const auto found = own.kept.find(size);
    if (found != own.kept.end()) {
      uint8_t* const block = found->second.back().block;
      found->second.pop_back();
      if (found->second.empty()) own.kept.erase(found);
      own.kept_bytes -= size;
      own.used_bytes += size;
      own.used.emplace(block, size);
      return block;
    }
  }
  trim();  // what is not needed goes before more comes
  uint8_t* const block = map(size);
  if (block == nullptr) {
    Decoding::has_allocated(-size);
    return nullptr;
  }
  const std::lock_guard lock(own.mutex);
  own.used_bytes += size;
  own.used.emplace(block, size);
  return block;
}

void KeptPages::free(uint8_t* block, int64_t bytes) {
  Own& own = *own_;
  bool is_kept = false;
  int64_t size = size_for(bytes);
  {
    const std::lock_guard lock(own.mutex);
    const auto used = own.used.find(block);
    if (used != own.used.end()) {  // otherwise it is of the process that this one is a fork of
      size = used->second;
      own.used.erase(used);
      own.used_bytes -= size;
    }
    is_kept = !own.ledgers.empty();
    if (is_kept) {
      own.kept[size].push_back({block, ++own.time});
      own.kept_bytes += size;
    }
  }
  Decoding::has_allocated(-size);
  is_kept ? trim() : unmap(block, size);
}

uint8_t* KeptPages::resize(uint8_t* block, int64_t bytes, int64_t new_bytes) {
  {
    Own& own = *own_;
    const std::lock_guard lock(own.mutex);
    const auto used = own.used.find(block);
    if (used != own.used.end() && new_bytes <= used->second && new_bytes >= used->second / 2) return block;
  }
  uint8_t* const other = allocate(new_bytes);
  if (other == nullptr) return nullptr;
  std::memcpy(other, block, static_cast<size_t>(std::min(bytes, new_bytes)));
  free(block, bytes);
  return other;
}

void KeptPages::count_in(const std::shared_ptr<Ledger>& ledger) {
  Own& own = *own_;
  const std::lock_guard lock(own.mutex);
  own.ledgers.push_back(ledger);
}

void KeptPages::leave(const std::shared_ptr<Ledger>& ledger) {
  {
    Own& own = *own_;
    const std::lock_guard lock(own.mutex);
    std::erase(own.ledgers, ledger);
  }
  trim();
}

void KeptPages::trim() {
  std::shared_ptr<Ledger> ledger;
  {
    Own& own = *own_;
    const std::lock_guard lock(own.mutex);
    if (!own.ledgers.empty()) ledger = own.ledgers.back();
  }
  if (ledger != nullptr) {
    ledger->trim_spare();
  } else {
    keep_at_most(0);
  }
}

int64_t KeptPages::keep_at_most(int64_t bytes) {
  std::vector<std::pair<uint8_t*, int64_t>> unneeded;
  int64_t kept = 0;
  {
    Own& own = *own_;
    const std::lock_guard lock(own.mutex);
    while (own.kept_bytes > std::max<int64_t>(bytes, 0)) {
      const auto oldest =
          std::ranges::min_element(own.kept, {}, [](const auto& of_size) { return of_size.second.front().time; });
      unneeded.emplace_back(oldest->second.front().block, oldest->first);
      own.kept_bytes -= oldest->first;
      oldest->second.pop_front();
      if (oldest->second.empty()) own.kept.erase(oldest);
    }
    kept = own.kept_bytes;
  }
  for (const auto& [block, size] : unneeded) unmap(block, size);
  return kept;
}

int64_t KeptPages::bytes() const {
  const std::lock_guard lock(own_->mutex);
  return own_->used_bytes + own_->kept_bytes;
}

const std::shared_ptr<KeptPages>& kept_pages() {
  static const auto* const pages = new std::shared_ptr<KeptPages>(std::make_shared<KeptPages>());
  return *pages;
}

}  // namespace paceline::data
