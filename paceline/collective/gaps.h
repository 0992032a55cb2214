// Gaps: which ranges of a heap are to be had.
//
// Ranges never touch: those that would are one. Threading: one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace paceline::collective {

class Gaps {
 public:
  /// A range that nobody has any more. It overlaps no other.
  void add(uint64_t offset, uint64_t bytes);
  /// The beginning of the smallest gap that has `bytes`, of equal ones the first; what it has beyond stays. Nothing
  /// when there is none.
  std::optional<uint64_t> take(uint64_t bytes);
  /// All of them, by offset; there are none afterwards.
  std::map<uint64_t, uint64_t> take_all();
  /// In all gaps together.
  uint64_t bytes() const { return bytes_; }

 private:
  std::map<uint64_t, uint64_t> gaps_;  // offset and bytes
  uint64_t bytes_ = 0;
};

}  // namespace paceline::collective
