// Machines whose wall clock is set while they train, or between two drivers.
#include "paceline/track/metrics_history.h"
#include "tests/robustness/robustness_fixture.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

class WrongClocks : public Robustness {
 protected:
  static Environment clock(const std::string& wrong) {
    return {{"LD_PRELOAD", OTHER_CLOCK}, {"PACELINE_TEST_CLOCK", wrong}, {"HEARTBEAT_TIMEOUT", "10"}};
  }
};

TEST_F(WrongClocks, AClockThatJumpsForAndBackChangesNothing) {
  auto driver = start("well", clock("jumps"));
  ASSERT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_EQ(checkpoints().size(), 5u);
  double last = 0;
  ASSERT_TRUE(track::visit_history(folder(), [&](const track::HistoryRow& line) {
                EXPECT_GE(line.time, last) << "one process's time goes on";
                last = line.time;
              }).ok());
  expect_clean(driver);
}

TEST_F(WrongClocks, ARunWhoseDriverWasADayAheadIsContinued) {
  auto first = start("endless", clock("86400"));
  ASSERT_TRUE(first.wait_for_output("looping")) << first.output();
  first.signal(SIGKILL);
  first.wait();
  EXPECT_THAT(first.leftovers(), ::testing::IsEmpty());
  auto second = start("well", clock("0"));
  ASSERT_EQ(second.wait(), 0) << second.output();
  EXPECT_THAT(second.output(), HasSubstr("state finished"));
  EXPECT_FALSE(checkpoints().empty());
  expect_clean(second);
}

}  // namespace
}  // namespace paceline
