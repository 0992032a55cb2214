// Shuffled orders by a key: one that takes no memory, whose place i is computed for any i in constant time, and one
// that is made as a whole, at a tenth of the cost.
//
// The first is a keyed bijection of 0 … size - 1: a Feistel network over the smallest power of four that holds `size`,
// walked until it meets a number below `size` (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA
// 2002). The second is Fisher and Yates's shuffle with numbers of SplitMix64 (Steele and others, OOPSLA 2014), made to
// fit by multiplication (Lemire, "Fast Random Integer Generation in an Interval", 2019). Values are the same on every
// machine; they are part of what a stored position means, so a change of them is a change of format. Immutable, so any
// thread may use one.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace paceline::data {

/// Well-mixed bits of two numbers: what seeds, epochs and windows are combined with. The finalizer of MurmurHash3.
uint64_t mix(uint64_t key, uint64_t value);
/// The same of a number and a text.
uint64_t mix_text(uint64_t key, std::string_view text);

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

/// Numbers by chance, one after the other: SplitMix64.
class RandomNumbers {
 public:
  explicit RandomNumbers(uint64_t key) : state_(key) {}
  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t bits = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return bits ^ (bits >> 31);
  }

 private:
  uint64_t state_;
};

/// 0 … size - 1, which `Number` can hold, in an order by `key`.
template <typename Number>
std::vector<Number> shuffled(int64_t size, uint64_t key) {
  std::vector<Number> order(static_cast<size_t>(size));
  RandomNumbers numbers(key);
  for (size_t i = 0; i < order.size(); ++i) {
    // A number below i + 1: off by less than one in 2^64 / i, which no dataset can show.
    const auto other = static_cast<size_t>((static_cast<unsigned __int128>(numbers.next()) * (i + 1)) >> 64);
    order[i] = order[other];
    order[other] = static_cast<Number>(i);
  }
  return order;
}

}  // namespace paceline::data
