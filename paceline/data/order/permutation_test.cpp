#include "paceline/data/order/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

namespace paceline::data {
namespace {

std::vector<int64_t> all_of(const Permutation& permutation) {
  std::vector<int64_t> order(static_cast<size_t>(permutation.size()));
  for (size_t place = 0; place < order.size(); ++place) order[place] = permutation[static_cast<int64_t>(place)];
  return order;
}

TEST(Permutation, HasEachNumberOnce) {
  for (const int64_t size : {0, 1, 2, 3, 15, 16, 17, 255, 256, 257, 1000, 4096, 65537}) {
    for (const uint64_t key : {0ULL, 1ULL, 42ULL, ~0ULL}) {
      std::vector<int64_t> order = all_of(Permutation(size, key));
      std::ranges::sort(order);
      std::vector<int64_t> wanted(static_cast<size_t>(size));
      std::iota(wanted.begin(), wanted.end(), 0);
      ASSERT_EQ(order, wanted) << "size " << size << " key " << key;
    }
  }
}

TEST(Permutation, StaysWithinVeryLargeSizes) {
  const Permutation permutation((int64_t{1} << 61) + 12345, 7);
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t place = i * (permutation.size() / 1000);
    EXPECT_GE(permutation[place], 0);
    EXPECT_LT(permutation[place], permutation.size());
  }
}

// Stored positions mean rows by these values.
TEST(Permutation, IsTheSameForEver) {
  EXPECT_EQ(all_of(Permutation(8, 7)), (std::vector<int64_t>{2, 3, 1, 7, 0, 6, 4, 5}));
  EXPECT_EQ(Permutation(1'000'000'007, 42)[123'456'789], 539'000'849);
  EXPECT_EQ(mix(7, 3), 13'981'552'475'451'098'731ULL);
}

// Chi-squared over all orders of four: 23 degrees of freedom, of which 49.7 is exceeded once in a thousand.
TEST(Permutation, AllOrdersOfFewAreEquallyLikely) {
  std::map<std::vector<int64_t>, int> counts;
  constexpr int kKeys = 24'000;
  for (uint64_t key = 0; key < kKeys; ++key) ++counts[all_of(Permutation(4, mix(99, key)))];
  ASSERT_EQ(counts.size(), 24u);
  double chi_squared = 0;
  for (const auto& [order, count] : counts) chi_squared += std::pow(count - kKeys / 24.0, 2) / (kKeys / 24.0);
  EXPECT_LT(chi_squared, 49.7);
}

// Of neighbours in the source, the share that are neighbours in the order is 2 / size.
TEST(Permutation, NeighboursPart) {
  constexpr int64_t kSize = 100'000;
  int64_t together = 0;
  const std::vector<int64_t> order = all_of(Permutation(kSize, 5));
  for (size_t i = 1; i < order.size(); ++i) together += std::abs(order[i] - order[i - 1]) == 1;
  EXPECT_LE(together, 12);  // 2 are expected
}

TEST(Permutation, KeysThatAreNearGiveOtherOrders) {
  constexpr int64_t kSize = 10'000;
  const std::vector<int64_t> first = all_of(Permutation(kSize, 1));
  const std::vector<int64_t> second = all_of(Permutation(kSize, 2));
  int64_t equal = 0;
  for (size_t i = 0; i < first.size(); ++i) equal += first[i] == second[i];
  EXPECT_LE(equal, 10);  // 1 is expected
}

}  // namespace
}  // namespace paceline::data
