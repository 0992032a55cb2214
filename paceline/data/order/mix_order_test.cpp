#include "paceline/data/order/mix_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace paceline::data {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kEndless = std::numeric_limits<int32_t>::max();

TEST(MixOrder, IsExactToTheRowEverywhere) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 200; ++i) {
    std::vector<double> weights(1 + random() % 8);
    for (double& weight : weights) weight = static_cast<double>(1 + random() % (i % 2 == 0 ? 10 : 1000));
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    const MixOrder order(weights, std::vector<int64_t>(weights.size(), kEndless), MixStop::first);
    std::vector<int64_t> counts(weights.size());
    const int64_t begin = static_cast<int64_t>(random() % 1000000);
    counts = order.before(begin);
    int64_t position = begin;
    for (const int32_t source : order.sources(begin, 2000)) {
      ++counts[static_cast<size_t>(source)];
      ++position;
      for (size_t j = 0; j < weights.size(); ++j) {
        const double wanted = weights[j] / sum * static_cast<double>(position);
        ASSERT_LE(std::abs(static_cast<double>(counts[j]) - wanted), 1.0) << "source " << j << " at " << position;
      }
    }
    ASSERT_EQ(counts, order.before(position));
  }
}

TEST(MixOrder, WeightsThatAreNoRatioOfSmallNumbers) {
  const MixOrder order({std::sqrt(2.0), 1, 1e-9}, {kEndless, kEndless, kEndless}, MixStop::first);
  const auto counts = order.before(1000000);
  EXPECT_NEAR(static_cast<double>(counts[0]), 1e6 * std::sqrt(2.0) / (1 + std::sqrt(2.0)), 3);
  EXPECT_GE(order.before(10000000)[2], 9) << "each has a part";
}

TEST(MixOrder, EndsWithTheFirst) {
  const MixOrder order({2, 1}, {10, 100}, MixStop::first);
  EXPECT_THAT(order.before(order.rows()), ElementsAre(10, ::testing::AnyOf(5, 6)));
  EXPECT_EQ(MixOrder({1, 1}, {0, 5}, MixStop::first).rows(), 0);
  EXPECT_THAT(order.sources(0, 6), ElementsAre(0, 1, 0, 0, 1, 0));
}

TEST(MixOrder, EndsWithAllRowsOnce) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200; ++i) {
    std::vector<double> weights(1 + random() % 5);
    std::vector<int64_t> rows(weights.size());
    for (double& weight : weights) weight = static_cast<double>(1 + random() % 9);
    for (int64_t& count : rows) count = static_cast<int64_t>(random() % 50);
    const MixOrder order(weights, rows, MixStop::all);
    ASSERT_EQ(order.rows(), std::accumulate(rows.begin(), rows.end(), int64_t{0}));
    if (order.rows() == 0) continue;
    std::vector<int64_t> counts(weights.size());
    int64_t position = 0;
    for (const int32_t source : order.sources(0, order.rows())) {
      ASSERT_EQ(order.before(position), counts);
      ++counts[static_cast<size_t>(source)];
      ++position;
    }
    ASSERT_EQ(counts, rows);
  }
}

TEST(MixOrder, RepeatsUntilEachHasGivenAll) {
  const MixOrder order({3, 1}, {6, 5}, MixStop::repeat);
  EXPECT_EQ(order.before(order.rows())[1], 5);
  EXPECT_GE(order.before(order.rows())[0], 12);
  EXPECT_EQ(order.sources(order.rows() - 1, 1)[0], 1) << "the last row that was missing is the last";
  EXPECT_EQ(MixOrder({1, 1}, {0, 5}, MixStop::repeat).rows(), 5);
}

TEST(MixOrder, IsKnownByItsNumber) {
  const auto print = [](std::vector<double> weights, MixStop stop) {
    return MixOrder(weights, {50, 60}, stop).fingerprint();
  };
  EXPECT_EQ(print({1, 2}, MixStop::all), print({2, 4}, MixStop::all));
  EXPECT_NE(print({1, 2}, MixStop::all), print({1, 3}, MixStop::all));
  EXPECT_NE(print({1, 2}, MixStop::all), print({1, 2}, MixStop::first));
}

}  // namespace
}  // namespace paceline::data
