#include "paceline/data/order/permutation.h"

namespace paceline::data {
namespace {

constexpr int kRounds = 6;
// A network over fewer numbers knows few orders: the smallest has 256.
constexpr int kLeastHalfBits = 4;
constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

uint64_t finalized(uint64_t bits) {
  bits = (bits ^ (bits >> 33)) * 0xff51afd7ed558ccd;
  bits = (bits ^ (bits >> 33)) * 0xc4ceb9fe1a85ec53;
  return bits ^ (bits >> 33);
}

}  // namespace

uint64_t mix(uint64_t key, uint64_t value) {
  return finalized(key + kGolden * (finalized(value) | 1));
}

uint64_t mix_text(uint64_t key, std::string_view text) {
  key = mix(key, text.size());
  for (size_t at = 0; at < text.size(); at += sizeof(uint64_t)) {
    const std::string_view part = text.substr(at, sizeof(uint64_t));
    uint64_t bits = 0;
    for (size_t i = 0; i < part.size(); ++i) bits |= uint64_t{static_cast<uint8_t>(part[i])} << (8 * i);
    key = mix(key, bits);
  }
  return key;
}

Permutation::Permutation(int64_t size, uint64_t key) : size_(size), key_(key), half_bits_(kLeastHalfBits) {
  while (half_bits_ < 31 && (int64_t{1} << (2 * half_bits_)) < size) ++half_bits_;
}

int64_t Permutation::operator[](int64_t place) const {
  if (size_ == 1) return 0;
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  auto number = static_cast<uint64_t>(place);
  do {
    uint64_t left = number >> half_bits_;
    uint64_t right = number & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t next = left ^ (finalized(right ^ (key_ + round * kGolden)) & mask);
      left = right;
      right = next;
    }
    number = (left << half_bits_) | right;
  } while (number >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(number);
}

}  // namespace paceline::data
