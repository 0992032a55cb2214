// How the rows of a window are mixed: they are dealt to bins by chance, then those of each bin are shuffled.
//
// Where each row's bin is chosen alone, every order of the window's rows is as likely as any other (Rao, "Generation of
// random permutations of given number of elements using random sampling numbers", 1961; Sandelius, "A simple
// randomization procedure", 1962). Both steps stay in a core's cache. And a chunk's rows can be dealt when it is read,
// without the others of its window, and a bin be shuffled when its rows are wanted.
//
// Pure functions of a key, of which each value is the same on every machine. Immutable.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::data {

/// The order of one window's rows: bin by bin.
///
///     const WindowMix mix(key, 100'000);  // rows of all chunks
///     mix.find_bins(0, bins);             // of the rows of the window's first chunk
///     mix.order_of(3, rows_in_bin_3);     // which of them comes first, counted as they stand in the window
class WindowMix {
 public:
  /// A bin has so many rows on average, or fewer.
  static constexpr int64_t kRowsOfBin = 8192;
  /// That a window may have: of more, a bin's rows could not be counted with 16 bits.
  static constexpr int64_t kMostRows = (int64_t{1} << 16) * kRowsOfBin;

  WindowMix(uint64_t key, int64_t rows);

  int64_t bins() const { return bins_; }
  /// Finds the bin of each row of a chunk, whose place among the window's chunks is `chunk`.
  void find_bins(int64_t chunk, std::span<uint16_t> bins) const;
  /// Which of a bin's rows comes first, second, …; they are at most 2^16.
  std::vector<uint16_t> order_of(int64_t bin, int64_t rows) const;
  /// Which of the window's rows comes first, second, …, counted through its chunks of `counts` rows each.
  std::vector<uint32_t> order(std::span<const int64_t> counts) const;

 private:
  uint64_t key_;
  int64_t bins_ = 1;  // a power of two
};

}  // namespace paceline::data
