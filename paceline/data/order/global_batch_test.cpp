#include "paceline/data/order/global_batch.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace paceline::data {
namespace {

BatchOptions random_options(std::mt19937_64& random) {
  BatchOptions options;
  options.rows = static_cast<int64_t>(random() % 200);
  options.position = random() % 2 == 0 ? 0 : static_cast<int64_t>(random() % static_cast<uint64_t>(options.rows + 1));
  options.batch_size = static_cast<int64_t>(1 + random() % 9);
  options.world_size = static_cast<int64_t>(1 + random() % 9);
  options.equal = static_cast<Equal>(random() % 4);
  options.drop_last = random() % 4 == 0;
  return options;
}

std::string text(const BatchOptions& options) {
  return std::to_string(options.rows) + " rows from " + std::to_string(options.position) + ", batches of " +
         std::to_string(options.batch_size) + " on " + std::to_string(options.world_size) + " ranks, equal " +
         std::to_string(static_cast<int>(options.equal)) + (options.drop_last ? ", drop_last" : "");
}

TEST(GlobalBatch, EveryRowOnceAndTheRanksAlike) {
  for (uint64_t seed = 0; seed < 10'000; ++seed) {
    std::mt19937_64 random(seed);
    const BatchOptions options = random_options(random);
    SCOPED_TRACE(text(options));
    std::map<int64_t, int> given;
    int64_t padding = 0;
    for (int64_t rank = 0; rank < options.world_size; ++rank) {
      const int64_t steps = steps_of(options, rank);
      if (options.equal != Equal::uneven) {
        ASSERT_EQ(steps, steps_of(options, 0));
      }
      ASSERT_GE(steps, steps_of(options, 0) - 1);
      for (int64_t step = 0; step < steps; ++step) {
        const Slice slice = slice_of(options, step, rank);
        ASSERT_GT(slice.rows + slice.padding, 0);
        ASSERT_LE(slice.rows + slice.padding, options.batch_size);
        for (int64_t row = slice.first; row < slice.first + slice.rows; ++row) ++given[row];
        padding += slice.padding;
        const Slice first = slice_of(options, step, 0);
        if (options.equal != Equal::uneven) {
          ASSERT_EQ(slice.rows + slice.padding, first.rows + first.padding);
        }
      }
    }
    for (const auto& [row, times] : given) {
      ASSERT_EQ(times, 1) << row;
      ASSERT_GE(row, options.position);
      ASSERT_LT(row, options.rows);
    }
    const int64_t left_out = options.rows - options.position - static_cast<int64_t>(given.size());
    const bool may_leave_out = options.drop_last || options.equal == Equal::drop;
    if (!may_leave_out) {
      ASSERT_EQ(left_out, 0);
    }
    ASSERT_LT(left_out, options.drop_last ? options.batch_size * options.world_size : options.world_size);
    ASSERT_LT(padding, options.world_size);
    if (options.equal != Equal::pad && options.equal != Equal::repeat) {
      ASSERT_EQ(padding, 0);
    }
  }
}

// Whoever goes on at another world size gets the very next rows.
TEST(GlobalBatch, GoesOnAtAnotherWorldSize) {
  for (uint64_t seed = 0; seed < 3'000; ++seed) {
    std::mt19937_64 random(seed);
    BatchOptions options = random_options(random);
    options.equal = Equal::uneven;
    options.drop_last = false;
    SCOPED_TRACE(text(options));
    int64_t wanted = options.position;
    while (options.position < options.rows) {
      ASSERT_GT(steps_of(options, 0), 0);
      for (int64_t rank = 0; rank < options.world_size && steps_of(options, rank) > 0; ++rank) {
        const Slice slice = slice_of(options, 0, rank);
        ASSERT_EQ(slice.first, wanted);
        wanted += slice.rows;
      }
      options.position = position_after(options, 0);
      ASSERT_EQ(options.position, wanted);
      options.world_size = static_cast<int64_t>(1 + random() % 9);
    }
  }
}

TEST(GlobalBatch, TheLastStepByPolicy) {
  BatchOptions options{.rows = 13, .batch_size = 4, .world_size = 2};  // five rows are left for the second step
  EXPECT_EQ(slice_of(options, 1, 1), (Slice{.first = 10, .rows = 2}));
  EXPECT_EQ(position_after(options, 0), 8);
  EXPECT_EQ(position_after(options, 1), 13);
  options.equal = Equal::pad;
  EXPECT_EQ(slice_of(options, 1, 0), (Slice{.first = 8, .rows = 3}));
  EXPECT_EQ(slice_of(options, 1, 1), (Slice{.first = 11, .rows = 2, .padding = 1}));
  options.equal = Equal::uneven;
  EXPECT_EQ(slice_of(options, 1, 0), (Slice{.first = 8, .rows = 3}));
  EXPECT_EQ(slice_of(options, 1, 1), (Slice{.first = 11, .rows = 2}));
  options.drop_last = true;
  EXPECT_EQ(steps_of(options, 0), 1);
  EXPECT_EQ(position_after(options, 0), 13);
}

// The rows of 8 ranks, of which 5 remain without any: as DistributedSampler, padding goes on from the beginning.
TEST(GlobalBatch, RepeatsFromTheBeginning) {
  const BatchOptions options{.rows = 3, .batch_size = 1, .world_size = 8, .equal = Equal::repeat};
  for (int64_t rank = 0; rank < 8; ++rank) {
    const Slice slice = slice_of(options, 0, rank);
    EXPECT_EQ(slice.rows + slice.padding, 1);
    EXPECT_EQ(slice.padding > 0 ? slice.padding_first : slice.first, rank % 3);
  }
}

TEST(GlobalBatch, NoRowsNoSteps) {
  for (const Equal equal : {Equal::drop, Equal::pad, Equal::repeat, Equal::uneven}) {
    EXPECT_EQ(steps_of({.rows = 0, .world_size = 3, .equal = equal}, 0), 0);
    EXPECT_EQ(steps_of({.rows = 7, .position = 7, .equal = equal}, 0), 0);
  }
}

}  // namespace
}  // namespace paceline::data
