#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <vector>

#include "paceline/worker/checkpoint_request.h"

namespace paceline::worker {
namespace {

TEST(CheckpointRequest, NobodyAsksThenNothingIsWantedAndNothingWaits) {
  CheckpointRequest request;
  request.begin();
  for (int call = 0; call < 3; ++call) EXPECT_FALSE(request.next_call());
}

TEST(CheckpointRequest, OneCallHearsOfIt) {
  CheckpointRequest request;
  request.begin();
  (void)request.next_call();
  EXPECT_EQ(request.ask(1), 1);
  request.decide(1, 3);
  EXPECT_FALSE(request.next_call());
  EXPECT_TRUE(request.next_call());
  EXPECT_FALSE(request.next_call());
}

TEST(CheckpointRequest, ACallWaitsForWhatIsDecided) {
  CheckpointRequest request;
  request.begin();
  EXPECT_EQ(request.ask(1), 0);
  auto call = std::async(std::launch::async, [&] { return request.next_call(); });
  request.decide(1, 1);
  EXPECT_TRUE(call.get());
}

TEST(CheckpointRequest, NothingMayComeOfIt) {
  CheckpointRequest request;
  request.begin();
  (void)request.ask(1);
  request.decide(1, 0);
  EXPECT_FALSE(request.next_call());
}

TEST(CheckpointRequest, AnAnswerToAnEarlierQuestionIsNone) {
  CheckpointRequest request;
  request.begin();
  (void)request.ask(1);
  (void)request.ask(2);
  request.decide(1, 1);
  auto call = std::async(std::launch::async, [&] { return request.next_call(); });
  request.decide(2, 0);
  EXPECT_FALSE(call.get());
}

TEST(CheckpointRequest, WhoIsStoppedWaitsNoMore) {
  CheckpointRequest request;
  request.begin();
  (void)request.ask(1);
  auto call = std::async(std::launch::async, [&] { return request.next_call(); });
  request.stop();
  EXPECT_FALSE(call.get());
}

TEST(CheckpointRequest, AProcessWithoutALoopSaysSo) {
  CheckpointRequest request;
  EXPECT_EQ(request.ask(1), -1);
  request.begin();  // it does not wait for what was asked before
  EXPECT_FALSE(request.next_call());
}

TEST(CheckpointRequest, TheNextLoopHearsNothingOfTheOneBefore) {
  CheckpointRequest request;
  request.begin();
  EXPECT_EQ(request.ask(1), 0);
  request.decide(1, 1);
  request.begin();
  EXPECT_FALSE(request.next_call());
}

// As the controller does it, while the ranks go on.
TEST(CheckpointRequest, AllRanksHearOfItAtTheSameCall) {
  constexpr int kCalls = 2000;
  std::vector<CheckpointRequest> ranks(3);
  for (CheckpointRequest& rank : ranks) rank.begin();
  std::vector<std::future<std::vector<int>>> loops;
  for (CheckpointRequest& rank : ranks) {
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
    for (CheckpointRequest& rank : ranks) last = std::max(last, rank.ask(number));
    for (CheckpointRequest& rank : ranks) rank.decide(number, last + 1);
  }
  std::vector<std::vector<int>> heard;
  for (auto& loop : loops) heard.push_back(loop.get());
  EXPECT_EQ(heard[0], heard[1]);
  EXPECT_EQ(heard[0], heard[2]);
}

}  // namespace
}  // namespace paceline::worker
