// A shuffled order that takes no memory: place i of it is computed, for any i, in constant time.
//
// A keyed bijection of 0 … size - 1: a Feistel network over the smallest power of four that holds `size`, walked until
// it meets a number below `size` (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002). Values are
// the same on every machine; they are part of what a stored position means, so a change of them is a change of format.
// Immutable, so any thread may use one.
#pragma once

#include <cstdint>

namespace paceline::data {

/// Well-mixed bits of two numbers: what seeds, epochs and windows are combined with. The finalizer of MurmurHash3.
uint64_t mix(uint64_t key, uint64_t value);

/// An order of 0 … size - 1 by a key.
///
///     const Permutation order(1'000'000, mix(seed, epoch));
///     order[0];  // the number that comes first
class Permutation {
 public:
  /// `size` ≥ 0; another order for each `key`.
  Permutation(int64_t size, uint64_t key);

  /// What stands at `place`, 0 ≤ place < size: each of 0 … size - 1 at exactly one place.
  int64_t operator[](int64_t place) const;
  int64_t size() const { return size_; }

 private:
  int64_t size_;
  uint64_t key_;
  int half_bits_;  // of each half of a number in the network
};

}  // namespace paceline::data
