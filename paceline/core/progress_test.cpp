#include "paceline/core/progress.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace paceline {
namespace {

using std::chrono::seconds;

// A word, its reader and their clock.
class ProgressTest : public ::testing::Test {
 protected:
  ProgressReading read() const { return reader_.read(clock_.monotonic()); }

  ManualClock clock_{Time{seconds(100)}};
  Progress progress_ = Progress::create(clock_).ValueOrDie();
  const ProgressReader reader_ =
      ProgressReader::open(progress_.memory().descriptor().duplicate().ValueOrDie()).ValueOrDie();
};

// Up to `unknown`, which comes last.
TEST(Phases, EachHasANameThatLeadsBackToIt) {
  for (uint32_t number = 0; number < static_cast<uint32_t>(Phase::unknown); ++number) {
    const auto phase = static_cast<Phase>(number);
    EXPECT_NE(to_string(phase), "") << number;
    EXPECT_EQ(nlohmann::json(to_string(phase)).get<Phase>(), phase);
  }
  EXPECT_EQ(nlohmann::json("").get<Phase>(), Phase::unknown);
}

TEST_F(ProgressTest, TheReaderSeesWhatTheWriterNoted) {
  EXPECT_EQ(read().phase, Phase::starting);
  clock_.advance(seconds(5));
  progress_.set_phase(Phase::collective);
  progress_.set_step(17);
  clock_.advance(seconds(2));
  EXPECT_EQ(read().phase, Phase::collective);
  EXPECT_EQ(read().step, 17);
  EXPECT_EQ(read().in_phase, seconds(2));
  EXPECT_EQ(read().idle, seconds(2));
}

TEST_F(ProgressTest, SettingTheWallClockChangesNothing) {
  progress_.set_phase(Phase::data);
  clock_.advance(seconds(3));
  clock_.set_wall(std::chrono::hours(-24));
  EXPECT_EQ(read().in_phase, seconds(3));
  clock_.set_wall(std::chrono::hours(48));
  EXPECT_EQ(read().idle, seconds(3));
}

TEST_F(ProgressTest, ThePausesBeforeTheFirstStepDoNotCount) {
  clock_.advance(seconds(60));
  progress_.set_step(1);
  EXPECT_EQ(read().longest_pause, seconds(0));
  clock_.advance(seconds(4));
  progress_.set_phase(Phase::data);
  clock_.advance(seconds(2));
  progress_.note_report();
  EXPECT_EQ(read().longest_pause, seconds(4));
  EXPECT_EQ(read().marks, 2);
}

TEST_F(ProgressTest, AStepsTimeIsWithoutWaitingInCollectives) {
  for (int64_t step = 1; step <= 5; ++step) {
    progress_.set_step(step);
    clock_.advance(seconds(2));
    progress_.begin_collective(Collective::all_reduce);
    progress_.begin_collective(Collective::all_reduce);  // both are under way
    clock_.advance(seconds(7));
    progress_.end_collective();
    progress_.end_collective();
  }
  EXPECT_EQ(read().step_time, seconds(2));
  EXPECT_EQ(read().steps_timed, 3);  // neither the first nor the one that runs
}

TEST_F(ProgressTest, TheOldestCollectiveIsTheOneThatIsWaitedFor) {
  progress_.begin_collective(Collective::broadcast);
  progress_.begin_collective(Collective::all_reduce);
  EXPECT_EQ(to_string(read().oldest), "broadcast");
  progress_.end_collective();
  EXPECT_EQ(read().oldest, Collective::all_reduce);
  EXPECT_EQ(read().collectives, 2);
  EXPECT_EQ(read().collectives_done, 1);
  progress_.forget_collectives();
  EXPECT_EQ(read().collectives, 0);
}

TEST_F(ProgressTest, ACollectiveThatIsMadeOfOthersIsShownAsWhatWasCalled) {
  progress_.show_collectives_as(Collective::broadcast);
  progress_.begin_collective(Collective::all_gather);
  EXPECT_EQ(read().oldest, Collective::broadcast);
  progress_.show_collectives_as(Collective::none);
  progress_.end_collective();
  progress_.begin_collective(Collective::all_gather);
  EXPECT_EQ(read().oldest, Collective::all_gather);
}

TEST(Progress, OutlivesTheWriter) {
  const ManualClock clock;
  auto progress = Progress::create(clock).ValueOrDie();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    progress.set_step(42);
    progress.set_phase(Phase::checkpoint);
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(progress.step(), 42);
  EXPECT_EQ(to_string(progress.phase()), "checkpoint");
}

TEST(Progress, RefusesMemoryThatIsNoProgressWord) {
  auto zeroes = SharedMemory::create("zeroes", sizeof(ProgressWord)).ValueOrDie();
  const auto other_version = ProgressReader::open(zeroes.descriptor().duplicate().ValueOrDie());
  EXPECT_TRUE(other_version.status().IsInvalid());
  EXPECT_NE(other_version.status().message().find("wanted 2, got 0"), std::string::npos);
  auto small = SharedMemory::create("small", 4).ValueOrDie();
  EXPECT_TRUE(ProgressReader::open(small.descriptor().duplicate().ValueOrDie()).status().IsInvalid());
}

}  // namespace
}  // namespace paceline
