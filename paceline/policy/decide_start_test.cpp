// From nothing to a running group, and what is done when that does not work.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/policy/decide_fixture.h"

namespace paceline::policy {
namespace {

using ::testing::HasSubstr;

TEST(Start, AssignsRanksWhenAllHaveJoined) {
  Play run({.num_workers = 3});
  EXPECT_EQ(run.state(), State::initializing);
  run.bring_up_nodes();
  EXPECT_EQ(run.state(), State::scheduling);
  EXPECT_EQ(run.wanted<StartWorker>().size(), 3u);
  const auto ids = run.workers();
  run.feed(WorkerJoined{.worker = ids[2]});
  run.feed(WorkerJoined{.worker = ids[2]});  // twice counts once
  run.feed(WorkerJoined{.worker = ids[0]});
  EXPECT_EQ(run.state(), State::scheduling);
  run.feed(WorkerJoined{.worker = ids[1]});
  EXPECT_EQ(run.state(), State::running);
  ASSERT_EQ(run.wanted<AssignWorkers>().size(), 1u);
  EXPECT_EQ(run.wanted<AssignWorkers>()[0].first_report, 1);
  EXPECT_EQ(run.all().workers.at(ids[2]).rank, 2);
}

TEST(Start, RanksAreContiguousOnNodesInTheirOrder) {
  Play run({.num_workers = 5, .nodes = 2, .placement_strategy = "SPREAD"});
  run.bring_up_nodes();
  run.join_all();
  std::vector<std::vector<int64_t>> places;
  for (const auto& [id, worker] : run.all().workers) {
    places.push_back({worker.rank, worker.node, worker.local_rank, worker.local_world_size, worker.node_rank});
  }
  const std::vector<std::vector<int64_t>> wanted = {
      {0, 0, 0, 3, 0}, {1, 0, 1, 3, 0}, {2, 0, 2, 3, 0}, {3, 1, 0, 2, 1}, {4, 1, 1, 2, 1}};
  EXPECT_EQ(places, wanted);
}

TEST(Start, MoreGpuWorkersThanGpusFailBeforeAnyProcessStarts) {
  Play run({.num_workers = 3, .gpus_per_worker = 1});
  run.bring_up_nodes(/*gpus=*/2);
  EXPECT_TRUE(run.wanted<StartWorker>().empty());
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error, HasSubstr("3 workers with 1 GPU each were asked for, but there is room for 2"));
}

TEST(Start, WorkersGoWhereGpusAre) {
  Play run({.num_workers = 3, .nodes = 2, .gpus_per_worker = 1});
  run.feed(NodeJoined{{.name = "a", .gpus = 1}});
  run.feed(NodeJoined{{.name = "b", .gpus = 2}});
  EXPECT_EQ(run.state(), State::scheduling);
  EXPECT_EQ(run.all().workers.at(run.worker(0)).node, 0);
  EXPECT_EQ(run.all().workers.at(run.worker(1)).node, 1);
  EXPECT_EQ(run.all().workers.at(run.worker(2)).node, 1);
}

TEST(Start, WorkersShareAGpu) {
  Play run({.num_workers = 4, .gpus_per_worker = 0.5});
  run.bring_up_nodes(/*gpus=*/2);
  EXPECT_EQ(run.wanted<StartWorker>().size(), 4u);
  Play too_many({.num_workers = 5, .gpus_per_worker = 0.5});
  too_many.bring_up_nodes(/*gpus=*/2);
  EXPECT_THAT(too_many.all().error, HasSubstr("5 workers with 0.5 GPU each were asked for, but there is room for 4"));
}

TEST(Start, AgentsThatDoNotComeEndTheRun) {
  Play run;
  run.fire_timer();
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error, HasSubstr("nly 0 of 1 agents"));
}

TEST(Start, TimeoutReschedulesInTheSameAttemptWithNewProcesses) {
  Play run;
  run.bring_up_nodes();
  const auto first = run.workers();
  run.feed(WorkerJoined{.worker = first[0]});
  run.fire_timer();
  EXPECT_EQ(run.state(), State::rescheduling);
  EXPECT_EQ(run.wanted<EndWorker>().size(), 2u);
  run.exit_all();
  EXPECT_EQ(run.state(), State::scheduling);
  EXPECT_EQ(run.all().attempt.value, 1);
  EXPECT_EQ(run.all().generation.value, 1);
  EXPECT_GT(run.worker(0), first[1]);
  EXPECT_EQ(run.all().start_failures, 1);
  EXPECT_EQ(run.all().worker_failures, 0);
}

TEST(Start, ATimeoutNamesTheLogs) {
  Play run({.num_workers = 5, .controller_failure_limit = 0});
  run.bring_up_nodes();
  run.fire_timer();
  run.exit_all();
  EXPECT_THAT(run.all().error,
              HasSubstr("logs/worker_1.log, logs/worker_2.log, logs/worker_3.log, … in the run folder"));
}

TEST(Start, FailuresUseTheirOwnBudgetAndAreCountedExactly) {
  Play run({.num_workers = 1, .controller_failure_limit = 2});
  run.bring_up_nodes();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(run.state(), State::scheduling) << i;
    run.exit(run.worker(0), {.exit_code = i});
    if (run.state() == State::rescheduling) run.fire_timer();
  }
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error, HasSubstr("before it had joined"));
}

TEST(Start, TheSameExitThreeTimesBeforeAnyJoinedEndsTheRun) {
  Play run({.num_workers = 1});
  run.bring_up_nodes();
  for (int i = 0; i < 3; ++i) {
    run.exit(run.worker(0), {.exit_code = 3});
    if (run.state() == State::rescheduling) run.fire_timer();
  }
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error, HasSubstr("exited with code 3"));
}

// As when a closure crashes while it is unpickled: all join, none comes to its loop's first line.
TEST(Start, TheSameDeathBeforeTheLoopsFirstLineEndsTheRun) {
  Play run({.num_workers = 1, .max_failures = 0});
  run.bring_up_nodes();
  for (int i = 0; i < kSameExits; ++i) {
    ASSERT_EQ(run.state(), State::scheduling) << i;
    run.join_all();
    run.exit(run.worker(0), {.signal = 11}, Phase::starting);
    if (run.state() == State::rescheduling) run.fire_timer();
  }
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error, HasSubstr("crashed with SIGSEGV before it had entered its train loop"));
}

TEST(Start, ARunThatHasTrainedBearsMoreOfTheSameDeath) {
  Play run({.num_workers = 1, .max_failures = 1});
  run.bring_up_nodes();
  run.join_all();
  run.exit(run.worker(0), {.signal = 9});
  ASSERT_EQ(run.state(), State::scheduling);
  for (int i = 0; i < kSameStarts; ++i) {
    ASSERT_EQ(run.state(), State::scheduling) << i;
    run.exit(run.worker(0), {.signal = 9}, Phase::starting);
    if (run.state() == State::rescheduling) run.fire_timer();
  }
  EXPECT_EQ(run.state(), State::errored);
}

TEST(Start, WorkersThatNeverJoinEndTheRun) {
  Play run({.num_workers = 1});
  run.bring_up_nodes();
  for (int i = 0; i < kSameStarts; ++i) {
    ASSERT_EQ(run.state(), State::scheduling) << i;
    run.fire_timer();
    run.exit_all();
    if (run.state() == State::rescheduling) run.fire_timer();
  }
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error, HasSubstr("did not join within"));
}

TEST(Start, TheSameRefusalInOtherWordsEndsTheRun) {
  Play run({.num_workers = 1});
  run.bring_up_nodes();
  for (int i = 0; i < kSameStarts; ++i) {
    ASSERT_EQ(run.state(), State::scheduling) << i;
    const std::string log = "/runs/a/logs/worker_" + std::to_string(run.worker(0).value) + ".log";
    run.feed(StartFailed{run.worker(0), "opening the log file " + log + ": Permission denied"});
    if (run.state() == State::rescheduling) run.fire_timer();
  }
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error, HasSubstr("Permission denied"));
}

TEST(Start, AHopelessRefusalEndsTheRunAtOnce) {
  Play run;
  run.bring_up_nodes();
  run.feed(StartFailed{run.worker(0), "a message is too large", /*hopeless=*/true});
  EXPECT_EQ(run.wanted<EndWorker>().size(), 1u) << "the other";
  run.feed(StartFailed{run.worker(1), "a message is too large", /*hopeless=*/true});
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error, HasSubstr("could not be started: a message is too large"));
}

TEST(Start, AGroupThatTrainsForgetsTheStartsBefore) {
  Play run({.num_workers = 1, .max_failures = 1});
  run.bring_up_nodes();
  for (int i = 0; i < kSameStarts - 1; ++i) {
    run.feed(StartFailed{run.worker(0), "no memory"});
    if (run.state() == State::rescheduling) run.fire_timer();
  }
  run.join_all();
  run.exit(run.worker(0), {.signal = 9});
  run.fire_timer();
  run.feed(StartFailed{run.worker(0), "no memory"});
  EXPECT_EQ(run.state(), State::rescheduling);
}

TEST(Start, DeathInTheLaunchWindowIsAStartFailure) {
  Play run = Play::training();
  run.exit(run.worker(0), {.signal = 9}, Phase::starting);
  EXPECT_EQ(run.state(), State::rescheduling);
  EXPECT_EQ(run.all().worker_failures, 0);
}

TEST(Start, BackOffDoublesUpToThirtySeconds) {
  EXPECT_EQ(back_off_seconds(1), 0.0);
  EXPECT_DOUBLE_EQ(back_off_seconds(2), 0.1);
  EXPECT_DOUBLE_EQ(back_off_seconds(4), 0.4);
  EXPECT_EQ(back_off_seconds(50), 30.0);
}

}  // namespace
}  // namespace paceline::policy
