#include "paceline/loader/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "paceline/testing/python_reference.h"

namespace paceline {
namespace {

TEST(DistributedOrder, EqualsThePythonSampler) {
  const auto cases = testing::python_reference("paceline/loader/sampler_test.py");
  if (!cases) GTEST_SKIP() << "no Python with torch";
  ASSERT_GT(cases->size(), 1000u);
  for (const Json& row : *cases) {
    const OrderOptions options{.size = row["size"],
                               .world_size = row["world_size"],
                               .rank = row["rank"],
                               .seed = row["seed"],
                               .epoch = row["epoch"],
                               .shuffle = row["shuffle"],
                               .remainder = row["drop_last"].get<bool>() ? Remainder::drop : Remainder::pad};
    ASSERT_EQ(distributed_order(options), row["order"].get<std::vector<size_t>>())
        << "size " << options.size << " world " << options.world_size << " rank " << options.rank << " seed "
        << options.seed << " epoch " << options.epoch;
  }
}

/// How often each row is given to some rank.
std::map<size_t, int> counts(OrderOptions options) {
  std::map<size_t, int> result;
  for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
    const auto rows = distributed_order(options);
    EXPECT_EQ(static_cast<int64_t>(rows.size()), share_size(options));
    for (const size_t row : rows) ++result[row];
  }
  return result;
}

TEST(DistributedOrder, SharesOutEveryRow) {
  for (const int64_t size : {0, 1, 5, 16, 97}) {
    for (const int64_t world_size : {1, 2, 3, 7, 128}) {
      const OrderOptions options{.size = size, .world_size = world_size, .seed = 3, .epoch = 2, .shuffle = true};
      OrderOptions keep = options;
      keep.remainder = Remainder::keep;
      const auto kept = counts(keep);
      EXPECT_EQ(static_cast<int64_t>(kept.size()), size);
      EXPECT_TRUE(std::ranges::all_of(kept, [](const auto& row) { return row.second == 1; }));
      EXPECT_EQ(static_cast<int64_t>(counts(options).size()), size) << "padding leaves no row out";
      OrderOptions drop = options;
      drop.remainder = Remainder::drop;
      const auto left = counts(drop);
      EXPECT_EQ(static_cast<int64_t>(left.size()), size / world_size * world_size);
      EXPECT_TRUE(std::ranges::all_of(left, [](const auto& row) { return row.second == 1; }));
    }
  }
}

TEST(DistributedOrder, GoesOnFromAPositionAtAnotherWorldSize) {
  const OrderOptions four{.size = 50, .world_size = 4, .seed = 1, .shuffle = true, .remainder = Remainder::keep};
  std::map<size_t, int> seen;
  for (int64_t rank = 0; rank < 4; ++rank) {  // three steps of batch 2 on four ranks
    OrderOptions options = four;
    options.rank = rank;
    const auto rows = distributed_order(options);
    for (size_t i = 0; i < 6; ++i) ++seen[rows[i]];
  }
  OrderOptions three = four;
  three.world_size = 3;
  three.position = 24;
  for (const auto& [row, count] : counts(three)) seen[row] += count;
  EXPECT_EQ(seen.size(), 50u);
  EXPECT_TRUE(std::ranges::all_of(seen, [](const auto& row) { return row.second == 1; }));
}

TEST(DistributedOrder, TheRestAtTheSameWorldSizeIsTheTail) {
  for (const Remainder remainder : {Remainder::pad, Remainder::drop, Remainder::keep}) {
    OrderOptions options{.size = 23, .world_size = 4, .rank = 3, .shuffle = true, .remainder = remainder};
    const auto whole = distributed_order(options);
    options.position = 12;
    EXPECT_EQ(distributed_order(options), std::vector<size_t>(whole.begin() + 3, whole.end()));
  }
}

}  // namespace
}  // namespace paceline
