#include <gtest/gtest.h>

#include "paceline/train/worker/step_owner_internal.h"

namespace paceline::train {
namespace {

class StepOwnerTest : public ::testing::Test {
 protected:
  // Of so many, how many are the loop's.
  int steps(int count) {
    int taken = 0;
    while (count-- > 0) taken += owner_.takes_optimizer_step() ? 1 : 0;
    return taken;
  }
  int batches(int count, bool has_gradients = true) {
    int taken = 0;
    while (count-- > 0) taken += owner_.takes_batch(has_gradients) ? 1 : 0;
    return taken;
  }

  StepOwner owner_;
};

TEST_F(StepOwnerTest, BatchesThatStepsGoWithCount) {
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(batches(1), 1);
    ASSERT_EQ(steps(1 + i % 2), 0);
  }
  EXPECT_EQ(batches(64, /*has_gradients=*/false), 64) << "of a second loader too";
}

TEST_F(StepOwnerTest, WithAccumulationEachBatchCounts) {
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(batches(64), 64);
    ASSERT_EQ(steps(1), 0);
  }
}

TEST_F(StepOwnerTest, WithoutLoadersStepsOfOptimizersCount) {
  EXPECT_EQ(steps(1000), 1000);
}

TEST_F(StepOwnerTest, StepsBeforeTheFirstBatchEndNothing) {
  EXPECT_EQ(steps(5), 5);
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(batches(8), 8);
    ASSERT_EQ(steps(1), 0);
  }
}

TEST_F(StepOwnerTest, ALoaderThatIsValidatedWithDoesNotCount) {
  EXPECT_EQ(steps(50), 50);
  EXPECT_EQ(batches(10, /*has_gradients=*/false), 0);
  for (int epoch = 0; epoch < 20; ++epoch) {
    ASSERT_EQ(steps(50), 50);
    ASSERT_EQ(batches(10), 0) << "with gradients, by mistake";
  }
}

TEST_F(StepOwnerTest, ALoaderThatIsValidatedWithFirstGivesWay) {
  EXPECT_EQ(batches(2, /*has_gradients=*/false), 2) << "it may be the only one";
  EXPECT_EQ(steps(50), 48);
  EXPECT_EQ(batches(2), 0);
  EXPECT_EQ(steps(50), 50);
}

// As PPO's epochs, parts of a long sequence, a critic that is trained more often.
TEST_F(StepOwnerTest, SeveralStepsToABatchLeaveTheStepsToTheLoader) {
  for (const int per_batch : {3, 12, 50}) {
    owner_ = {};
    for (int i = 0; i < 200; ++i) {
      ASSERT_EQ(batches(1), 1) << per_batch;
      ASSERT_EQ(steps(per_batch), 0) << per_batch;
    }
  }
}

TEST_F(StepOwnerTest, AFewStepsBeforeAValidationThatComesFirstEndNothing) {
  EXPECT_EQ(steps(1), 1);
  EXPECT_EQ(batches(11, /*has_gradients=*/false), 0);
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(batches(8), 8);
    ASSERT_EQ(steps(1), 0);
  }
}

TEST_F(StepOwnerTest, ManyStepsToABatchAreTheLoopsOwn) {
  EXPECT_EQ(batches(1), 1);
  EXPECT_EQ(steps(120), 21);
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(batches(1), 0);
    ASSERT_EQ(steps(120), 120);
  }
}

TEST_F(StepOwnerTest, ALoaderComesBack) {
  for (int i = 0; i < 10; ++i) batches(1), steps(1);
  EXPECT_EQ(steps(200), 102) << "its batches come from elsewhere now";
  int taken = 0;
  for (int i = 0; i < 150; ++i) taken += batches(1), steps(1);
  EXPECT_EQ(taken, 50);
}

}  // namespace
}  // namespace paceline::train
