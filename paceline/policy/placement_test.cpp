#include "paceline/policy/placement.h"

#include <gmock/gmock.h>

#include <array>
#include <numeric>
#include <random>

namespace paceline::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<Node> nodes_with_cores(const std::vector<int64_t>& cores) {
  std::vector<Node> nodes;
  for (size_t i = 0; i < cores.size(); ++i) {
    const std::string name = "node" + std::to_string(i);
    nodes.push_back({.name = name, .host = name, .cores = cores[i]});
  }
  return nodes;
}

RunOptions one_core_each(const std::string& strategy) {
  return {.cpus_per_worker = 1, .placement_strategy = strategy};
}

TEST(Placement, PackFillsAsFewNodesAsItCan) {
  const std::vector<Node> nodes = nodes_with_cores({2, 4, 2});
  EXPECT_THAT(place(nodes, one_core_each("PACK"), 4).counts, ElementsAre(0, 4, 0));
  EXPECT_THAT(place(nodes, one_core_each("PACK"), 5).counts, ElementsAre(1, 4, 0));
}

TEST(Placement, SpreadTakesTheNextNodeWithRoom) {
  const std::vector<Node> nodes = nodes_with_cores({1, 4, 2});
  EXPECT_THAT(place(nodes, one_core_each("SPREAD"), 2).counts, ElementsAre(1, 1, 0));
  EXPECT_THAT(place(nodes, one_core_each("SPREAD"), 6).counts, ElementsAre(1, 3, 2));
}

TEST(Placement, StrictStrategiesRefuseWhatTheyCannotKeep) {
  const std::vector<Node> nodes = nodes_with_cores({2, 4});
  EXPECT_THAT(place(nodes, one_core_each("STRICT_PACK"), 4).counts, ElementsAre(0, 4));
  EXPECT_THAT(place(nodes, one_core_each("STRICT_PACK"), 5).problem, HasSubstr("room for 4 on one node"));
  EXPECT_THAT(place(nodes, one_core_each("STRICT_SPREAD"), 2).counts, ElementsAre(1, 1));
  EXPECT_THAT(place(nodes, one_core_each("STRICT_SPREAD"), 3).problem, HasSubstr("room for 2 on nodes of their own"));
}

TEST(Placement, EveryResourceCounts) {
  std::vector<Node> nodes = nodes_with_cores({8, 8});
  nodes[0].memory_bytes = 3'000'000'000;
  nodes[1].memory_bytes = 8'000'000'000;
  nodes[1].resources = {{"licence", 0.3}};
  const RunOptions options{.cpus_per_worker = 2, .memory_per_worker = 2e9, .resources_per_worker = {{"licence", 0.1}}};
  EXPECT_THAT(place(nodes, options, 3).counts, ElementsAre(0, 3)) << "three times 0.1 are 0.3";
  const Placement none = place(nodes, options, 4);
  EXPECT_THAT(none.counts, IsEmpty());
  EXPECT_THAT(none.problem,
              HasSubstr("4 workers with 2 CPUs, 2 GB of memory, 0.1 of \"licence\" each were asked for, but there is "
                        "room for 3: node0 has 8 CPUs, 3 GB of memory; node1 has 8 CPUs, 8 GB of memory, 0.3 of "
                        "\"licence\""));
}

TEST(Placement, LabelsSelectNodes) {
  std::vector<Node> nodes = nodes_with_cores({4, 4});
  nodes[1].labels = {{"accelerator-type", "H100"}};
  RunOptions options = one_core_each("PACK");
  options.label_selector = {{"accelerator-type", "H100"}};
  EXPECT_THAT(place(nodes, options, 2).counts, ElementsAre(0, 2));
  options.label_selector = {{"accelerator-type", "A100"}};
  EXPECT_THAT(place(nodes, options, 1).problem, HasSubstr("on nodes with accelerator-type=A100"));
}

TEST(Placement, LabelsSelectAsInRay) {
  std::vector<Node> nodes = nodes_with_cores({1, 1, 1});
  nodes[0].labels = {{"zone", "a"}};
  nodes[1].labels = {{"zone", "b"}};
  const struct {
    const char* wanted;
    std::vector<int64_t> room;
  } cases[] = {{"a", {1, 0, 0}},        {"!a", {0, 1, 1}},    {"in(a,b)", {1, 1, 0}}, {"in( b , c)", {0, 1, 0}},
               {"!in(a,b)", {0, 0, 1}}, {"in(c)", {0, 0, 0}}, {"in()", {0, 0, 0}},    {"!in()", {1, 1, 1}}};
  for (const auto& [wanted, room] : cases) {
    RunOptions options = one_core_each("PACK");
    options.label_selector = {{"zone", wanted}};
    for (size_t node = 0; node < nodes.size(); ++node)
      EXPECT_EQ(room_on(nodes[node], options, 9), room[node]) << wanted;
  }
}

TEST(Placement, AHostWhereGroupsFailedTwiceIsUsedLast) {
  std::vector<Node> nodes = {{.name = "full", .host = "full", .cores = 4, .failures = 2},
                             {.name = "good", .host = "good", .cores = 4, .failures = 1}};
  const RunOptions options{.cpus_per_worker = 1};
  EXPECT_THAT(place(nodes, options, 4).counts, ElementsAre(0, 4));
  EXPECT_THAT(place(nodes, options, 5).counts, ElementsAre(4, 1)) << "there is no room elsewhere";
}

TEST(Placement, AHostThatWasLostTwiceIsUsedLast) {
  std::vector<Node> nodes = nodes_with_cores({4, 4});
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(place(nodes, one_core_each("PACK"), 2).counts[0], 2) << "lost " << i << " times";
    nodes.push_back({.name = "earlier", .host = "node0", .cores = 4, .lost = true});
  }
  EXPECT_THAT(place(nodes, one_core_each("PACK"), 2).counts, ElementsAre(0, 2, 0, 0));
  EXPECT_THAT(place(nodes, one_core_each("PACK"), 6).counts, ElementsAre(4, 2, 0, 0)) << "where others have no room";
}

TEST(Placement, SumsFitAndNoNodeGetsMoreThanItsRoom) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 5000; ++i) {
    std::vector<Node> nodes;
    for (uint64_t count = random() % 6, k = 0; k < count; ++k) {
      nodes.push_back({.host = std::to_string(random() % 3),
                       .cores = static_cast<int64_t>(random() % 9),
                       .gpus = static_cast<int64_t>(random() % 5),
                       .lost = random() % 4 == 0});
    }
    constexpr std::array kStrategies = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"};
    RunOptions options{.cpus_per_worker = static_cast<double>(random() % 3),
                       .gpus_per_worker = static_cast<double>(random() % 5) / 2};
    options.placement_strategy = kStrategies[random() % 4];
    const int64_t workers = 1 + static_cast<int64_t>(random() % 12);
    const Placement placement = place(nodes, options, workers);
    EXPECT_EQ(placement.counts.empty(), !placement.problem.empty());
    if (placement.counts.empty()) continue;
    EXPECT_EQ(std::accumulate(placement.counts.begin(), placement.counts.end(), int64_t{0}), workers);
    int64_t used = 0;
    for (size_t node = 0; node < nodes.size(); ++node) {
      const int64_t here = placement.counts[node];
      used += here > 0 ? 1 : 0;
      EXPECT_LE(here, room_on(nodes[node], options, workers));
    }
    EXPECT_TRUE(options.placement_strategy != "STRICT_PACK" || used == 1);
    EXPECT_TRUE(options.placement_strategy != "STRICT_SPREAD" || used == workers);
  }
}

TEST(Placement, EachNodeHasAsManyWorkersAsItSaysInTheOrderOfRanks) {
  std::vector<Node> nodes = nodes_with_cores({1, 1, 1, 1});
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i].workers = static_cast<int64_t>(i) + 2;
  nodes[0].rank = 1;
  nodes[2].rank = 0;
  EXPECT_THAT(in_rank_order(nodes), ElementsAre(2, 0, 1, 3));
  EXPECT_THAT(fill(nodes, {.nodes = 2, .most_nodes = 3}).counts, ElementsAre(2, 3, 4, 0)) << "cores do not count";
  nodes[2].lost = true;
  EXPECT_THAT(fill(nodes, {.nodes = 2, .most_nodes = 3}).counts, ElementsAre(2, 3, 0, 5));
  nodes[0].lost = nodes[1].lost = true;
  const Placement few = fill(nodes, {.nodes = 2, .most_nodes = 3});
  EXPECT_THAT(few.counts, IsEmpty());
  EXPECT_THAT(few.problem, HasSubstr("2 nodes are needed (--nnodes), and there is 1: node0 is lost"));
}

}  // namespace
}  // namespace paceline::policy
