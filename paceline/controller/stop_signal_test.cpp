#include <gtest/gtest.h>

#include "paceline/controller/controller.h"
#include "paceline/controller/inbox.h"

namespace paceline::controller {
namespace {

TEST(StopSignal, CountsWhatItHears) {
  StopSignal stop;
  stop.hear(SIGINT);
  stop.hear(SIGINT);
  EXPECT_EQ(take_count(stop.descriptor()), 2u);
  EXPECT_EQ(stop.signal(), SIGINT);
  EXPECT_EQ(stop.cause(), StopCause::interrupt);
}

TEST(StopSignal, ASecondSigtermCountsForTheThird) {
  StopSignal stop;
  stop.hear(SIGTERM);
  EXPECT_EQ(take_count(stop.descriptor()), 1u);
  stop.hear(SIGTERM);
  EXPECT_EQ(take_count(stop.descriptor()), 2u);
  EXPECT_EQ(stop.signal(), SIGTERM);
  EXPECT_EQ(stop.cause(), StopCause::terminated);
}

TEST(StopSignalDeathTest, OneMoreThanTheThirdEndsTheProcess) {
  EXPECT_EXIT(
      {
        StopSignal stop;
        for (int i = 0; i < 4; ++i) stop.hear(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace paceline::controller
