#include "paceline/collective/meeting.h"

#include <gmock/gmock.h>

#include <numeric>
#include <random>

namespace paceline::collective {
namespace {

using ::testing::ElementsAre;

TEST(RanksByNode, FollowWhoHasAttachedWhom) {
  EXPECT_THAT(ranks_by_node({{0, 1}, {0, 1}, {2, 3}, {2, 3}}), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  // Machines need not come one after the other.
  EXPECT_THAT(ranks_by_node({{0, 2}, {1, 3}, {0, 2}, {1, 3}}), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  // One that the others could not attach is alone, and so is one that attached in one direction only.
  EXPECT_THAT(ranks_by_node({{0, 1, 2}, {0, 1}, {0, 2}}), ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
  EXPECT_THAT(ranks_by_node({{0, 1}, {1}}), ElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(RanksByNode, HoldEveryRankOnceWithAllOfItsNodeAttached) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const int ranks = 1 + static_cast<int>(random() % 9);
    std::vector<std::vector<int>> attached(static_cast<size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      for (int other = 0; other < ranks; ++other) {
        if (rank == other || random() % 4 != 0) attached[static_cast<size_t>(rank)].push_back(other);
      }
    }
    std::vector<int> seen;
    for (const auto& node : ranks_by_node(attached)) {
      EXPECT_TRUE(std::ranges::is_sorted(node));
      for (const int one : node) {
        seen.push_back(one);
        for (const int other : node) EXPECT_THAT(attached[static_cast<size_t>(one)], ::testing::Contains(other));
      }
    }
    std::vector<int> all(static_cast<size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_THAT(seen, ::testing::UnorderedElementsAreArray(all));
  }
}

}  // namespace
}  // namespace paceline::collective
