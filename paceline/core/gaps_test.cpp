#include "paceline/core/gaps.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <random>

namespace paceline {
namespace {

TEST(Gaps, TakesTheSmallestThatFits) {
  Gaps gaps;
  gaps.add(0, 100);
  gaps.add(200, 30);
  gaps.add(300, 30);
  EXPECT_EQ(gaps.take(20), 200U);
  EXPECT_EQ(gaps.take(10), 220U);
  EXPECT_EQ(gaps.take(101), std::nullopt);
  EXPECT_EQ(gaps.bytes(), 130U);
}

TEST(Gaps, TakesTheEndOfTheLast) {
  Gaps gaps;
  gaps.add(0, 10);
  gaps.add(50, 10);
  const auto [offset, bytes] = gaps.take_last(4);
  EXPECT_EQ(offset, 56U);
  EXPECT_EQ(bytes, 4U);
  EXPECT_EQ(gaps.take_last(100).bytes, 6U);
  EXPECT_EQ(gaps.take_last(100).bytes, 10U);
  EXPECT_EQ(gaps.bytes(), 0U);
}

TEST(Gaps, RangesNeverOverlapAndAreOneAgain) {
  constexpr uint64_t kAll = 4096;
  Gaps gaps;
  gaps.add(0, kAll);
  std::map<uint64_t, uint64_t> taken;
  std::mt19937_64 random(1);
  uint64_t in_use = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (!taken.empty() && random() % 2 == 0) {
      const auto one = std::next(taken.begin(), static_cast<int64_t>(random() % taken.size()));
      gaps.add(one->first, one->second);
      in_use -= one->second;
      taken.erase(one);
    } else {
      Gaps::Range range{0, 1 + random() % 200};
      if (random() % 4 == 0 && gaps.bytes() > 0) {
        range = gaps.take_last(range.bytes);
      } else if (const auto offset = gaps.take(range.bytes)) {
        range.offset = *offset;
      } else {
        continue;
      }
      const auto next = taken.lower_bound(range.offset);
      if (next != taken.end()) ASSERT_LE(range.offset + range.bytes, next->first);
      if (next != taken.begin()) ASSERT_LE(std::prev(next)->first + std::prev(next)->second, range.offset);
      ASSERT_LE(range.offset + range.bytes, kAll);
      taken[range.offset] = range.bytes;
      in_use += range.bytes;
    }
    ASSERT_EQ(gaps.bytes() + in_use, kAll);
  }
  for (const auto& [offset, bytes] : taken) gaps.add(offset, bytes);
  EXPECT_EQ(gaps.take(kAll), 0U);
}

}  // namespace
}  // namespace paceline
