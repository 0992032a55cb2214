#include "paceline/collective/meeting.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <stdexcept>

#include "paceline/collective/peers.h"
#include "paceline/core/error.h"

namespace paceline::collective {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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

// --- ranks that do not come --------------------------------------------------------------------------------------

TEST(Meeting, ARankThatDoesNotComeIsNamed) {
  const Bulletin bulletin{.set = [](const std::string&, const std::string&) {},
                          .get = [](const std::string& key, Deadline) -> std::string {
                            if (key.ends_with("/0")) return "{}";
                            throw std::runtime_error("no key within 10 ms\nlong stack");
                          }};
  try {
    (void)meet(bulletin, 0, 2, Arena::create(heap_bytes(2)), std::chrono::milliseconds(10));
    FAIL() << "nobody is there";
  } catch (const CollectiveError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 0 of 2 cannot meet rank 1"), HasSubstr("no key within 10 ms"),
                                    Not(HasSubstr("stack"))));
  }
}

// It has left its address, and neither lets anybody in nor comes.
TEST(Meeting, ARankThatShowsItselfAndDoesNotGoOnIsNamed) {
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sa_family_t unnamed = AF_UNIX;  // the kernel chooses an abstract address
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&unnamed), sizeof unnamed), 0);
  ASSERT_EQ(::listen(socket.get(), 1), 0);
  sockaddr_un address{};
  socklen_t size = sizeof address;
  ASSERT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string name(address.sun_path + 1, size - offsetof(sockaddr_un, sun_path) - 1);
  for (const int rank : {0, 1}) {
    std::map<std::string, std::string> words{{"reached/0", "[1]"}};
    const Bulletin bulletin{.set = [&](const std::string& key, const std::string& value) { words[key] = value; },
                            .get =
                                [&](const std::string& key, Deadline) {
                                  if (words.contains(key)) return words.at(key);
                                  auto place = nlohmann::json::parse(words.at("place/" + std::to_string(rank)));
                                  place["socket"] = name;
                                  return place.dump();
                                }};
    const auto met = meet(bulletin, rank, 2, Arena::create(heap_bytes(2)), std::chrono::milliseconds(10));
    EXPECT_THAT(met.status().message(), HasSubstr("rank " + std::to_string(1 - rank) + ":"));
  }
}

}  // namespace
}  // namespace paceline::collective
