#include "paceline/loader/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "paceline/core/error.h"

namespace paceline::loader {
namespace {

using Rows = std::vector<size_t>;

/// The batches of one iteration, up to `limit`; the body of the loop is empty.
std::vector<Rows> iterate(BatchSchedule& schedule, int64_t limit = -1) {
  std::vector<Rows> batches;
  schedule.begin();
  while (schedule.next_batch() < schedule.batches() && limit != static_cast<int64_t>(batches.size())) {
    batches.push_back(schedule.rows(schedule.next_batch()));
    schedule.hand_out();
    schedule.settle();
  }
  schedule.end();
  return batches;
}

LoaderPlace place_of(int64_t rank, int64_t world_size) {
  return {.rank = rank, .world_size = world_size};
}

TEST(BatchSchedule, EveryIterationIsTheNextEpochAndSetEpochWins) {
  BatchSchedule schedule(100, {.batch_size = 8, .shuffle = true}, {});
  EXPECT_EQ(schedule.epoch(), 0);
  const auto first = iterate(schedule);
  EXPECT_EQ(schedule.epoch(), 1);
  const auto second = iterate(schedule);
  EXPECT_NE(first, second);
  schedule.set_epoch(0);
  EXPECT_EQ(iterate(schedule), first);
  EXPECT_EQ(iterate(schedule), second);
  schedule.set_epoch(7);
  iterate(schedule, 2);  // left early: the next iteration is the next epoch all the same
  EXPECT_EQ(schedule.epoch(), 8);
}

TEST(BatchSchedule, SizeCountsTheBatchesOfEachRank) {
  EXPECT_EQ(BatchSchedule(100, {.batch_size = 8}, place_of(0, 2)).size(), 7);
  EXPECT_EQ(BatchSchedule(100, {.batch_size = 8, .drop_last = true}, place_of(0, 2)).size(), 6);
  EXPECT_EQ(BatchSchedule(101, {.batch_size = 50, .evaluation = true}, place_of(0, 2)).size(), 2);
  EXPECT_EQ(BatchSchedule(101, {.batch_size = 50, .evaluation = true}, place_of(1, 2)).size(), 1);
  EXPECT_EQ(BatchSchedule(0, {.batch_size = 8}, {}).size(), 0);
  BatchSchedule dropped(100, {.batch_size = 8, .drop_last = true}, place_of(1, 2));
  for (const Rows& rows : iterate(dropped)) EXPECT_EQ(rows.size(), 8u);
}

TEST(BatchSchedule, ResumesWithExactlyTheBatchesThatRemain) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const auto below = [&random](int64_t high) { return static_cast<int64_t>(random() % static_cast<uint64_t>(high)); };
    const int64_t world_size = 1 + below(4);
    const auto place = place_of(below(world_size), world_size);
    const DataLoaderOptions options{.batch_size = 1 + below(9), .shuffle = below(2) == 1, .drop_last = below(2) == 1};
    const int64_t size = below(80);
    BatchSchedule whole(size, options, place);
    const int64_t epoch = below(3);
    whole.set_epoch(epoch);
    const auto all = iterate(whole);
    const int64_t done = below(static_cast<int64_t>(all.size()) + 1);

    BatchSchedule stopped(size, options, place);
    stopped.set_epoch(epoch);
    const auto before = iterate(stopped, done);
    DataLoaderOptions other_seed = options;
    other_seed.seed = 99;  // the state's seed wins
    BatchSchedule resumed(size, other_seed, place);
    resumed.load_state_dict(stopped.state_dict());
    if (done < static_cast<int64_t>(all.size())) {
      EXPECT_EQ(resumed.remaining(), static_cast<int64_t>(all.size()) - done);
      resumed.set_epoch(resumed.epoch());  // as a train loop does
      auto together = before;
      for (Rows& rows : iterate(resumed)) together.push_back(std::move(rows));
      ASSERT_EQ(together, all);
    }
    EXPECT_EQ(iterate(resumed), iterate(whole)) << "the epoch after it";
  }
}

TEST(BatchSchedule, GoesOnAtAnotherWorldSizeWithTheRowsThatRemain) {
  for (const int64_t before : {1, 2, 4}) {
    for (const int64_t after : {1, 2, 3, 4}) {
      constexpr int64_t kSize = 97;
      const DataLoaderOptions options{.batch_size = 4, .shuffle = true};
      std::map<size_t, int> seen;
      StateDict state;
      for (int64_t rank = 0; rank < before; ++rank) {
        BatchSchedule schedule(kSize, options, place_of(rank, before));
        for (const Rows& rows : iterate(schedule, 3)) {
          for (const size_t row : rows) ++seen[row];
        }
        state = schedule.state_dict();
      }
      int64_t given = 3 * 4 * before;
      for (int64_t rank = 0; rank < after; ++rank) {
        BatchSchedule schedule(kSize, options, place_of(rank, after));
        schedule.load_state_dict(state);
        for (const Rows& rows : iterate(schedule)) {
          given += static_cast<int64_t>(rows.size());
          for (const size_t row : rows) ++seen[row];
        }
      }
      EXPECT_EQ(seen.size(), static_cast<size_t>(kSize)) << before << " ranks, then " << after;
      EXPECT_LT(given - kSize, after) << "only the padding of the last rows is given twice";
    }
  }
}

TEST(BatchSchedule, AStateFromTheBodyOfTheLoopCountsTheBatchInHandUnlessItIsVoid) {
  const auto ledger = std::make_shared<StepLedger>();
  BatchSchedule schedule(40, {.batch_size = 5}, {.world_size = 2, .ledger = ledger});
  schedule.begin();
  schedule.hand_out();
  EXPECT_EQ(schedule.state_dict().values["position"], 10);
  ledger->void_step();
  EXPECT_EQ(schedule.state_dict().values["position"], 0);
  EXPECT_FALSE(schedule.settle());
  EXPECT_EQ(schedule.next_batch(), 0);
  EXPECT_EQ(ledger->count(), 0);
  schedule.hand_out();
  EXPECT_FALSE(ledger->is_void());
  EXPECT_TRUE(schedule.settle());
  EXPECT_EQ(schedule.next_batch(), 1);
  EXPECT_EQ(ledger->count(), 1);
}

TEST(BatchSchedule, AVoidStepIsVoidForEveryLoaderThatFeedsIt) {
  const auto ledger = std::make_shared<StepLedger>();
  BatchSchedule labelled(40, {.batch_size = 5}, {.ledger = ledger});
  BatchSchedule unlabelled(80, {.batch_size = 10}, {.ledger = ledger});
  labelled.begin();
  unlabelled.begin();
  labelled.hand_out();
  unlabelled.hand_out();
  ledger->void_step();
  EXPECT_FALSE(labelled.settle());
  labelled.hand_out();
  EXPECT_FALSE(unlabelled.settle()) << "the other loader's next batch does not make the step count";
  unlabelled.hand_out();
  EXPECT_EQ(labelled.next_batch(), 0);
  EXPECT_EQ(unlabelled.next_batch(), 0);
  EXPECT_FALSE(ledger->is_void());
  EXPECT_TRUE(labelled.settle());
  labelled.hand_out();
  EXPECT_TRUE(unlabelled.settle());
  EXPECT_EQ(ledger->count(), 1) << "one step, whatever number of loaders";
}

TEST(BatchSchedule, ABatchOfAnOuterLoopIsNotGivenAgainForAnInnerStep) {
  const auto ledger = std::make_shared<StepLedger>();
  BatchSchedule outer(4, {.batch_size = 1}, {.ledger = ledger});
  BatchSchedule inner(2, {.batch_size = 1}, {.ledger = ledger});
  outer.begin();
  outer.hand_out();
  inner.begin();
  inner.hand_out();
  ledger->void_step();
  EXPECT_FALSE(inner.settle());
  for (int step = 0; step < 2; ++step) {
    inner.hand_out();
    EXPECT_TRUE(inner.settle());
  }
  inner.end();
  EXPECT_TRUE(outer.settle());
  EXPECT_EQ(ledger->count(), 2);
}

TEST(BatchSchedule, AStateFromTheLastBodyOfAnEpochGoesOnAfterIt) {
  BatchSchedule schedule(10, {.batch_size = 5}, {});
  schedule.begin();
  schedule.hand_out();
  schedule.settle();
  schedule.hand_out();
  const StateDict in_body = schedule.state_dict();
  schedule.settle();
  schedule.end();
  BatchSchedule resumed(10, {.batch_size = 5}, {});
  resumed.load_state_dict(in_body);
  EXPECT_EQ(resumed.epoch(), 0);
  EXPECT_TRUE(iterate(resumed).empty()) << "what follows the loop of epoch 0 is still to be done";
  EXPECT_EQ(resumed.epoch(), 1);
  resumed.load_state_dict(schedule.state_dict());
  EXPECT_EQ(resumed.epoch(), 1);
  EXPECT_EQ(iterate(resumed).size(), 2u);
}

TEST(BatchSchedule, EvaluationGivesEveryRowOnceAndCountsNoSteps) {
  const auto ledger = std::make_shared<StepLedger>();
  ledger->void_step();
  std::map<size_t, int> seen;
  for (int64_t rank = 0; rank < 3; ++rank) {
    BatchSchedule schedule(50, {.batch_size = 4, .evaluation = true},
                           {.rank = rank, .world_size = 3, .ledger = ledger});
    for (const Rows& rows : iterate(schedule)) {
      for (const size_t row : rows) ++seen[row];
    }
  }
  EXPECT_EQ(seen.size(), 50u);
  for (const auto& [row, count] : seen) EXPECT_EQ(count, 1) << row;
  EXPECT_TRUE(ledger->is_void());
  EXPECT_EQ(ledger->count(), 0);
}

TEST(BatchSchedule, UsesADistributedSamplerAsItIs) {
  torch::data::samplers::DistributedRandomSampler reference(30, 3, 1);
  reference.set_epoch(1);
  reference.reset();
  const Rows wanted = reference.next(100).value();
  const auto own = std::make_shared<torch::data::samplers::DistributedRandomSampler>(30, 3, 1);
  BatchSchedule schedule(30, {.batch_size = 4}, place_of(1, 3), own);
  EXPECT_EQ(schedule.size(), 3);
  schedule.set_epoch(1);
  Rows got;
  for (const Rows& rows : iterate(schedule, 2)) got.insert(got.end(), rows.begin(), rows.end());
  BatchSchedule resumed(30, {.batch_size = 4}, place_of(1, 3), own);
  resumed.load_state_dict(schedule.state_dict());
  for (const Rows& rows : iterate(resumed)) got.insert(got.end(), rows.begin(), rows.end());
  EXPECT_EQ(got, wanted);
  BatchSchedule other(30, {.batch_size = 4}, place_of(1, 2), own);
  EXPECT_THROW(other.load_state_dict(schedule.state_dict()), ConfigError);
}

TEST(BatchSchedule, SharesOutTheRowsOfAnyOtherSampler) {
  using torch::data::samplers::RandomSampler;
  const std::vector<std::shared_ptr<RandomSampler>> samplers = {std::make_shared<RandomSampler>(20),
                                                                std::make_shared<RandomSampler>(20)};
  torch::manual_seed(5);
  const torch::Tensor expected = torch::rand({3});
  torch::manual_seed(5);
  std::map<size_t, int> seen;
  for (int64_t rank = 0; rank < 2; ++rank) {
    BatchSchedule schedule(30, {.batch_size = 4}, place_of(rank, 2), samplers[static_cast<size_t>(rank)]);
    const auto first = iterate(schedule);
    for (const Rows& rows : first) {
      for (const size_t row : rows) ++seen[row];
    }
    EXPECT_NE(iterate(schedule), first);
  }
  EXPECT_EQ(seen.size(), 20u) << "the ranks drew the same permutation";
  EXPECT_TRUE(torch::equal(torch::rand({3}), expected)) << "the default generator is as it was";
}

TEST(BatchSchedule, RefusesWhatDoesNotFit) {
  EXPECT_THROW(BatchSchedule(10, {.batch_size = 0}, {}), ConfigError);
  EXPECT_THROW(BatchSchedule(10, {.drop_last = true, .evaluation = true}, {}), ConfigError);
  BatchSchedule small(10, {.batch_size = 2}, {});
  iterate(small, 2);
  BatchSchedule large(11, {.batch_size = 2}, {});
  try {
    large.load_state_dict(small.state_dict());
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("10 rows; this one has 11"));
  }
  EXPECT_THROW(large.load_state_dict({}), ConfigError);
}

}  // namespace
}  // namespace paceline::loader
