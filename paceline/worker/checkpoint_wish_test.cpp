#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <vector>

#include "paceline/worker/checkpoint_wish.h"

namespace paceline::worker {
namespace {

TEST(CheckpointWish, NobodyAsksThenNothingIsWantedAndNothingWaits) {
  CheckpointWish wish;
  wish.begin();
  for (int call = 0; call < 3; ++call) EXPECT_FALSE(wish.next_call());
}

TEST(CheckpointWish, OneCallHearsOfIt) {
  CheckpointWish wish;
  wish.begin();
  (void)wish.next_call();
  EXPECT_EQ(wish.ask(1), 1);
  wish.decide(1, 3);
  EXPECT_FALSE(wish.next_call());
  EXPECT_TRUE(wish.next_call());
  EXPECT_FALSE(wish.next_call());
}

TEST(CheckpointWish, ACallWaitsForWhatIsDecided) {
  CheckpointWish wish;
  wish.begin();
  EXPECT_EQ(wish.ask(1), 0);
  auto call = std::async(std::launch::async, [&] { return wish.next_call(); });
  wish.decide(1, 1);
  EXPECT_TRUE(call.get());
}

TEST(CheckpointWish, NothingMayComeOfIt) {
  CheckpointWish wish;
  wish.begin();
  (void)wish.ask(1);
  wish.decide(1, 0);
  EXPECT_FALSE(wish.next_call());
}

TEST(CheckpointWish, AnAnswerToAnEarlierQuestionIsNone) {
  CheckpointWish wish;
  wish.begin();
  (void)wish.ask(1);
  (void)wish.ask(2);
  wish.decide(1, 1);
  auto call = std::async(std::launch::async, [&] { return wish.next_call(); });
  wish.decide(2, 0);
  EXPECT_FALSE(call.get());
}

TEST(CheckpointWish, WhoIsStoppedWaitsNoMore) {
  CheckpointWish wish;
  wish.begin();
  (void)wish.ask(1);
  auto call = std::async(std::launch::async, [&] { return wish.next_call(); });
  wish.stop();
  EXPECT_FALSE(call.get());
}

TEST(CheckpointWish, AProcessWithoutALoopSaysSo) {
  CheckpointWish wish;
  EXPECT_EQ(wish.ask(1), -1);
  wish.begin();  // it does not wait for what was asked before
  EXPECT_FALSE(wish.next_call());
}

TEST(CheckpointWish, TheNextLoopHearsNothingOfTheOneBefore) {
  CheckpointWish wish;
  wish.begin();
  EXPECT_EQ(wish.ask(1), 0);
  wish.decide(1, 1);
  wish.begin();
  EXPECT_FALSE(wish.next_call());
}

// As the controller does it, while the ranks go on.
TEST(CheckpointWish, AllRanksHearOfItAtTheSameCall) {
  constexpr int kCalls = 2000;
  std::vector<CheckpointWish> ranks(3);
  for (CheckpointWish& rank : ranks) rank.begin();
  std::vector<std::future<std::vector<int>>> loops;
  for (CheckpointWish& rank : ranks) {
    loops.push_back(std::async(std::launch::async, [&rank] {
      std::vector<int> heard;
      for (int call = 0; call < kCalls; ++call) {
        if (rank.next_call()) heard.push_back(call);
      }
      return heard;
    }));
  }
  for (int number = 1; number <= 20; ++number) {
    int64_t last = 0;
    for (CheckpointWish& rank : ranks) last = std::max(last, rank.ask(number));
    for (CheckpointWish& rank : ranks) rank.decide(number, last + 1);
  }
  std::vector<std::vector<int>> heard;
  for (auto& loop : loops) heard.push_back(loop.get());
  EXPECT_EQ(heard[0], heard[1]);
  EXPECT_EQ(heard[0], heard[2]);
}

}  // namespace
}  // namespace paceline::worker
