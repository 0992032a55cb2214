// Gaps: which ranges of some memory are to be had.
//
// Ranges never touch: those that would are one. Offsets and sizes are in bytes. Threading: one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace paceline {

class Gaps {
 public:
  struct Range {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  /// A range that nobody has any more. It overlaps no other.
  void add(uint64_t offset, uint64_t bytes);
  /// The beginning of the smallest gap that has `bytes`, of equal ones the first; what it has beyond stays. Nothing
  /// when there is none.
  std::optional<uint64_t> take(uint64_t bytes);
  /// The end of the last gap: `most` bytes, or the whole gap where it has fewer. There must be a gap.
  Range take_last(uint64_t most);
  /// In all gaps together.
  uint64_t bytes() const { return bytes_; }

 private:
  std::map<uint64_t, uint64_t> gaps_;  // offset and bytes
  uint64_t bytes_ = 0;
};

}  // namespace paceline
