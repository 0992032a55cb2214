#include "paceline/core/gaps.h"

#include <algorithm>
#include <iterator>

namespace paceline {

void Gaps::add(uint64_t offset, uint64_t bytes) {
  bytes_ += bytes;
  auto next = gaps_.lower_bound(offset);
  if (next != gaps_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  gaps_.emplace(offset, bytes);
}

std::optional<uint64_t> Gaps::take(uint64_t bytes) {
  auto best = gaps_.end();
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    if (gap->second >= bytes && (best == gaps_.end() || gap->second < best->second)) best = gap;
  }
  if (best == gaps_.end()) return std::nullopt;
  const auto [offset, size] = *best;
  gaps_.erase(best);
  if (size > bytes) gaps_.emplace(offset + bytes, size - bytes);
  bytes_ -= bytes;
  return offset;
}

Gaps::Range Gaps::take_last(uint64_t most) {
  const auto last = std::prev(gaps_.end());
  const uint64_t bytes = std::min(last->second, most);
  last->second -= bytes;
  const Range taken{last->first + last->second, bytes};
  if (last->second == 0) gaps_.erase(last);
  bytes_ -= bytes;
  return taken;
}

}  // namespace paceline
