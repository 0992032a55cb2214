#include "paceline/core/progress.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace paceline {
namespace {

using std::chrono::seconds;

TEST(Progress, TheReaderSeesWhatTheWriterNoted) {
  ManualClock clock(Time{seconds(100)});
  auto progress = Progress::create(clock).ValueOrDie();
  const auto reader = ProgressReader::open(progress.memory().descriptor().duplicate().ValueOrDie()).ValueOrDie();
  EXPECT_EQ(reader.read().phase, Phase::starting);
  EXPECT_EQ(reader.read().since, Time{seconds(100)});

  clock.advance(seconds(5));
  progress.set_phase(Phase::collective);
  progress.set_step(17);
  const ProgressReading reading = reader.read();
  EXPECT_EQ(reading.phase, Phase::collective);
  EXPECT_EQ(reading.step, 17);
  EXPECT_EQ(reading.since, Time{seconds(105)});
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
  EXPECT_NE(other_version.status().message().find("wanted 1, got 0"), std::string::npos);
  auto small = SharedMemory::create("small", 4).ValueOrDie();
  EXPECT_TRUE(ProgressReader::open(small.descriptor().duplicate().ValueOrDie()).status().IsInvalid());
}

}  // namespace
}  // namespace paceline
