#include "paceline/data/order/window_mix.h"

#include <algorithm>
#include <cstring>

#include "paceline/data/order/permutation.h"

namespace paceline::data {
namespace {

constexpr int64_t kMostBins = int64_t{1} << 16;
constexpr size_t kBinsOfNumber = sizeof(uint64_t) / sizeof(uint16_t);  // that bits of one random number choose

}  // namespace

WindowMix::WindowMix(uint64_t key, int64_t rows) : key_(key) {
  while (bins_ < kMostBins && bins_ * kRowsOfBin < rows) bins_ *= 2;
}

void WindowMix::find_bins(int64_t chunk, std::span<uint16_t> bins) const {
  const uint64_t mask = static_cast<uint64_t>(bins_ - 1) * 0x0001'0001'0001'0001;
  RandomNumbers numbers(mix(key_, static_cast<uint64_t>(chunk)));
  for (size_t row = 0; row < bins.size(); row += kBinsOfNumber) {
    const uint64_t chosen = numbers.next() & mask;
    std::memcpy(&bins[row], &chosen, std::min(kBinsOfNumber, bins.size() - row) * sizeof(uint16_t));
  }
}

std::vector<uint16_t> WindowMix::order_of(int64_t bin, int64_t rows) const {
  return shuffled<uint16_t>(rows, mix(~key_, static_cast<uint64_t>(bin)));
}

std::vector<uint32_t> WindowMix::order(std::span<const int64_t> counts) const {
  std::vector<std::vector<uint32_t>> dealt(static_cast<size_t>(bins_));
  uint32_t row = 0;
  for (size_t chunk = 0; chunk < counts.size(); ++chunk) {
    std::vector<uint16_t> bins(static_cast<size_t>(counts[chunk]));
    find_bins(static_cast<int64_t>(chunk), bins);
    for (const uint16_t bin : bins) dealt[bin].push_back(row++);
  }
  std::vector<uint32_t> all;
  all.reserve(row);
  for (size_t bin = 0; bin < dealt.size(); ++bin) {
    for (const uint16_t place : order_of(static_cast<int64_t>(bin), std::ssize(dealt[bin]))) {
      all.push_back(dealt[bin][place]);
    }
  }
  return all;
}

}  // namespace paceline::data
