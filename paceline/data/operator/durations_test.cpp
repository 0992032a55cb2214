#include "paceline/data/operator/durations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

namespace paceline::data {
namespace {

using namespace std::chrono_literals;

TEST(Durations, NoneAreNothing) {
  const Durations none;
  EXPECT_EQ(none.sum(), 0ns);
  EXPECT_EQ(none.shortest(), 0ns);
  EXPECT_EQ(none.longest(), 0ns);
  EXPECT_EQ(none.quantile(0.5), 0ns);
}

TEST(Durations, QuantilesAreThoseOfTheDurations) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 100; ++round) {
    Durations durations;
    std::vector<int64_t> all(1 + random() % 300);
    for (int64_t& one : all) {
      one = static_cast<int64_t>(std::exp2(std::uniform_real_distribution<>(0, 40)(random)));
      durations.add(std::chrono::nanoseconds(one));
    }
    std::ranges::sort(all);
    EXPECT_EQ(durations.shortest().count(), all.front());
    EXPECT_EQ(durations.longest().count(), all.back());
    for (const double share : {0.01, 0.5, 0.95, 1.0}) {
      const auto exact = static_cast<double>(all[static_cast<size_t>(std::ceil(share * all.size())) - 1]);
      EXPECT_GE(durations.quantile(share).count() + 1, exact) << share << " of " << all.size();
      EXPECT_LE(durations.quantile(share).count(), exact * 1.0906 + 1) << share << " of " << all.size();
    }
  }
}

TEST(Durations, BeyondAllBoundsTheyAreTheLongest) {
  Durations durations;
  durations.add(std::chrono::hours(100));
  EXPECT_EQ(durations.quantile(0.5), std::chrono::hours(100));
}

TEST(Waiting, IsOfTheThreadThatWaits) {
  const auto before = Waiting::of_this_thread();
  std::thread([&] {
    {
      const Waiting waiting;
    }
    EXPECT_GT(Waiting::of_this_thread(), 0ns);
  }).join();
  EXPECT_EQ(Waiting::of_this_thread(), before);
}

}  // namespace
}  // namespace paceline::data
