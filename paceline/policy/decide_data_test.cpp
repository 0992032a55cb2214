#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/policy/decide_fixture.h"

namespace paceline::policy {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const RunOptions kWithDatasets{.num_workers = 2, .max_failures = 1, .has_datasets = true};

WorkerId data_process(const Play& run) {
  return run.all().data_processes.at(0).worker;
}

TEST(DataProcess, StartsWithTheFirstGroupAndIsKeptOverAttempts) {
  Play run(kWithDatasets);
  run.bring_up_nodes();
  const auto started = run.wanted<StartDataProcess>();
  ASSERT_THAT(started, SizeIs(1));
  EXPECT_LT(started[0].worker, run.worker(0)) << "a number of its own, before the workers'";
  run.join_all();
  run.exit(run.worker(0), {.signal = 9});
  run.exit_all();
  EXPECT_EQ(run.state(), State::scheduling);
  EXPECT_THAT(run.wanted<StartDataProcess>(), IsEmpty());
  EXPECT_EQ(data_process(run), started[0].worker);
}

TEST(DataProcess, ARunWithoutDatasetsHasNone) {
  EXPECT_THAT(Play::training({.num_workers = 1}).all().data_processes, IsEmpty());
}

TEST(DataProcess, AnEndCostsNoAttempt) {
  Play run = Play::training(kWithDatasets);
  const WorkerId first = data_process(run);
  run.feed(DataProcessEnded{first, "was killed"});
  EXPECT_EQ(run.state(), State::running);
  ASSERT_THAT(run.wanted<StartDataProcess>(), SizeIs(1));
  EXPECT_GT(data_process(run), first);
  EXPECT_THAT(run.wanted<Note>().at(0).text, HasSubstr("the data process of node node0 was killed; another one"));
  run.feed(DataProcessEnded{first, "was killed"});  // known already
  EXPECT_THAT(run.wanted<StartDataProcess>(), IsEmpty());
}

TEST(DataProcess, OneEndAfterTheOtherIsAFailureOfTheGroup) {
  Play run = Play::training(kWithDatasets);
  for (int i = 0; i < 3; ++i) run.feed(DataProcessEnded{data_process(run), "exited with code 3"});
  EXPECT_EQ(run.state(), State::running);
  run.feed(DataProcessEnded{data_process(run), "exited with code 3"});
  EXPECT_EQ(run.state(), State::restarting);
  EXPECT_THAT(run.all().failures.at(0).text, HasSubstr("has ended 4 times in this attempt; the last one exited with"));
  run.exit_all();
  EXPECT_EQ(run.state(), State::scheduling);
  ASSERT_THAT(run.wanted<StartDataProcess>(), SizeIs(1));
  EXPECT_EQ(run.all().data_processes.at(0).ends, 0);
}

TEST(DataProcess, NoneIsStartedForARunThatEnds) {
  Play run = Play::training(kWithDatasets);
  run.feed(StopRequested{.cause = StopCause::interrupt});
  run.feed(DataProcessEnded{data_process(run), "was killed"});
  EXPECT_THAT(run.wanted<StartDataProcess>(), IsEmpty());
}

TEST(DataProcess, ANewControllerStartsItsOwn) {
  Play run = Play::training(kWithDatasets);
  run.feed(RunOpened{.epoch = {2}, .name = "test", .options = kWithDatasets});
  run.bring_up_nodes();
  EXPECT_THAT(run.wanted<StartDataProcess>(), SizeIs(1));
}

}  // namespace
}  // namespace paceline::policy
