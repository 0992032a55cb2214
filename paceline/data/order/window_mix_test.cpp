#include "paceline/data/order/window_mix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "paceline/data/order/permutation.h"

namespace paceline::data {
namespace {

using Counts = std::vector<int64_t>;

TEST(WindowMix, HasEachRowOnce) {
  for (const Counts& counts : {Counts{}, Counts{0, 1}, Counts{3, 0, 5}, Counts{8192}, Counts{8193}, Counts{20'001, 3},
                               Counts{70'000, 1, 50'003, 100'000}}) {
    const int64_t rows = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    std::vector<uint32_t> order = WindowMix(5, rows).order(counts);
    std::ranges::sort(order);
    std::vector<uint32_t> wanted(static_cast<size_t>(rows));
    std::iota(wanted.begin(), wanted.end(), 0);
    ASSERT_EQ(order, wanted) << rows << " rows";
  }
}

// Stored positions mean rows by these values.
TEST(WindowMix, IsTheSameForEver) {
  EXPECT_EQ(WindowMix(7, 8).order(Counts{5, 3}), (std::vector<uint32_t>{2, 3, 4, 0, 7, 6, 5, 1}));
  const std::vector<uint32_t> order = WindowMix(7, 100'000).order(Counts{40'000, 60'000});
  EXPECT_EQ(order[0], 59'205u);
  EXPECT_EQ(order[54'321], 51'465u);
  EXPECT_EQ(WindowMix(7, 100'000).bins(), 16);
  std::vector<uint16_t> bins(5);
  WindowMix(7, 100'000).find_bins(1, bins);
  EXPECT_EQ(bins, (std::vector<uint16_t>{11, 1, 11, 5, 13}));
}

// Chi-squared over all orders of four: 23 degrees of freedom, of which 49.7 is exceeded once in a thousand.
TEST(WindowMix, AllOrdersOfFewAreEquallyLikely) {
  std::map<std::vector<uint32_t>, int> counts;
  constexpr int kKeys = 24'000;
  for (uint64_t key = 0; key < kKeys; ++key) ++counts[WindowMix(mix(99, key), 4).order(Counts{3, 1})];
  ASSERT_EQ(counts.size(), 24u);
  double chi_squared = 0;
  for (const auto& [order, count] : counts) chi_squared += std::pow(count - kKeys / 24.0, 2) / (kKeys / 24.0);
  EXPECT_LT(chi_squared, 49.7);
}

// Where rows of a tenth of the window get to, by tenths: 81 degrees of freedom, of which 126.1 is exceeded once in a
// thousand; and the share of neighbours that stay neighbours is 2 / rows.
TEST(WindowMix, RowsOfEachPartGetEverywhere) {
  constexpr int64_t kRows = 200'000;
  const std::vector<uint32_t> order = WindowMix(3, kRows).order(Counts{kRows / 2, kRows / 2});
  std::vector<double> counts(100);
  int64_t together = 0;
  for (size_t place = 0; place < order.size(); ++place) {
    ++counts[order[place] / (kRows / 10) * 10 + place / (kRows / 10)];
    if (place > 0) together += std::abs(int64_t{order[place]} - int64_t{order[place - 1]}) == 1 ? 1 : 0;
  }
  double chi_squared = 0;
  for (const double count : counts) chi_squared += std::pow(count - kRows / 100.0, 2) / (kRows / 100.0);
  EXPECT_LT(chi_squared, 126.1);
  EXPECT_LE(together, 12);  // 2 are expected
}

TEST(WindowMix, KeysThatAreNearGiveOtherOrders) {
  constexpr int64_t kRows = 10'000;
  const std::vector<uint32_t> first = WindowMix(1, kRows).order(Counts{kRows});
  const std::vector<uint32_t> second = WindowMix(2, kRows).order(Counts{kRows});
  int64_t equal = 0;
  for (size_t i = 0; i < first.size(); ++i) equal += first[i] == second[i] ? 1 : 0;
  EXPECT_LE(equal, 10);  // 1 is expected
}

}  // namespace
}  // namespace paceline::data
