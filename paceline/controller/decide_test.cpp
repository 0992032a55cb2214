#include "paceline/controller/decide.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::controller {
namespace {

using ::testing::HasSubstr;

// Feeds events to decide() and keeps what it wanted done last.
class Play {
 public:
  explicit Play(RunOptions options = {.num_workers = 2}, std::vector<KeptCheckpoint> checkpoints = {})
      : options_(options) {
    feed(RunOpened{.epoch = {1}, .name = "test", .options = options, .checkpoints = std::move(checkpoints)});
  }

  // A run whose group has its ranks.
  static Play training(RunOptions options = {.num_workers = 2}) {
    Play run(options);
    run.bring_up_nodes();
    run.join_all();
    return run;
  }

  void feed(const Event& event) { actions_ = decide(state_, event, now_); }
  void bring_up_nodes(int64_t gpus = 0) {
    for (int64_t i = 0; i < options_.nodes; ++i) {
      feed(NodeJoined{{.name = "node" + std::to_string(i), .cores = 2, .gpus = gpus}});
    }
  }
  std::vector<WorkerId> workers() const {
    std::vector<WorkerId> ids;
    for (const auto& [id, worker] : state_.workers) ids.push_back(id);
    return ids;
  }
  WorkerId worker(size_t index) const { return workers().at(index); }
  void join_all() {
    for (const WorkerId id : workers()) feed(WorkerJoined{.worker = id, .pid = 100 + id.value});
  }
  void exit(WorkerId id, ExitStatus status = {}, std::string phase = "training") {
    feed(WorkerExited{.worker = id, .status = status, .phase = std::move(phase)});
  }
  // The workers that are left end because they were told to.
  void exit_all() {
    for (const WorkerId id : workers()) {
      if (state_.workers.contains(id) && state_.workers.at(id).stage != WorkerStage::gone) {
        exit(id, {.signal = 9, .ended_by_paceline = true});
      }
    }
  }
  void fire_timer() { feed(TimerDue{.turn = state_.turn}); }
  void advance(double seconds) { now_ = from_seconds(to_seconds(now_) + seconds); }

  template <class A>
  std::vector<A> wanted() const {
    std::vector<A> found;
    for (const Action& action : actions_) {
      if (const A* one = std::get_if<A>(&action)) found.push_back(*one);
    }
    return found;
  }
  State state() const { return state_.state; }
  const RunState& all() const { return state_; }
  Time now() const { return now_; }

 private:
  RunOptions options_;
  RunState state_;
  Time now_ = from_seconds(1000);
  Actions actions_;
};

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
  Play run({.num_workers = 5, .nodes = 2});
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
  EXPECT_THAT(run.all().error, HasSubstr("3 workers with 1 GPU each were asked for, but there are 2 GPUs"));
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

TEST(Start, TheSameExitIsTriedForEverOnceAWorkerHasJoined) {
  Play run;
  run.bring_up_nodes();
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(run.state(), State::scheduling) << i;
    run.feed(WorkerJoined{.worker = run.worker(0)});
    run.exit(run.worker(0), {.signal = 11});
    run.exit_all();
    if (run.state() == State::rescheduling) run.fire_timer();
  }
}

TEST(Start, DeathInTheLaunchWindowIsAStartFailure) {
  Play run = Play::training();
  run.exit(run.worker(0), {.signal = 9}, "starting");
  EXPECT_EQ(run.state(), State::rescheduling);
  EXPECT_EQ(run.all().worker_failures, 0);
}

TEST(Start, BackOffDoublesUpToThirtySeconds) {
  EXPECT_EQ(back_off_seconds(1), 0.0);
  EXPECT_DOUBLE_EQ(back_off_seconds(2), 0.1);
  EXPECT_DOUBLE_EQ(back_off_seconds(4), 0.4);
  EXPECT_EQ(back_off_seconds(50), 30.0);
}

TEST(Failure, RestartsWithinTheBudgetAndErrorsAfterExactlyNRetries) {
  Play run = Play::training({.num_workers = 2, .max_failures = 2});
  for (int attempt = 1; attempt <= 2; ++attempt) {
    EXPECT_EQ(run.all().attempt.value, attempt);
    run.exit(run.worker(1), {.signal = 9});
    EXPECT_EQ(run.state(), State::restarting);
    EXPECT_EQ(run.wanted<EndWorker>().size(), 1u) << "only the one that lives";
    run.exit_all();
    if (run.state() == State::restarting) run.fire_timer();  // back-off from the second on
    run.join_all();
    EXPECT_EQ(run.state(), State::running);
  }
  run.exit(run.worker(1), {.signal = 9});
  EXPECT_EQ(run.state(), State::shutting_down);
  run.exit_all();
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error, HasSubstr("Rank 1 of 2 on node node0 was killed by SIGKILL in step 0 (training)"));
  EXPECT_EQ(run.all().worker_errors.size(), 1u);
}

TEST(Failure, ExitWithZeroInMidLoopIsAFailure) {
  Play run = Play::training();
  run.exit(run.worker(0), {});
  run.exit_all();
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error,
              HasSubstr("exited with code 0 in step 0 (training), before its train loop had returned"));
}

TEST(Failure, CollateralWaitsForItsCause) {
  Play run = Play::training();
  run.feed(WorkerFailed{.worker = run.worker(0), .exception = "CollectiveError", .text = "peer", .collateral = true});
  EXPECT_EQ(run.state(), State::running);
  run.exit(run.worker(1), {.signal = 11});
  EXPECT_EQ(run.state(), State::shutting_down);
  run.exit_all();
  EXPECT_THAT(run.all().error, ::testing::StartsWith("Rank 1 of 2"));
  EXPECT_THAT(run.all().error, HasSubstr("As a consequence rank 0 of 2 on node node0 failed with CollectiveError"));
}

TEST(Failure, CollateralAloneCountsAfterASecond) {
  Play run = Play::training();
  run.feed(WorkerFailed{.worker = run.worker(0), .exception = "CollectiveError", .text = "peer", .collateral = true});
  ASSERT_EQ(run.wanted<SetTimer>().size(), 1u);
  run.fire_timer();
  EXPECT_EQ(run.state(), State::shutting_down);
}

TEST(Failure, ASilentProcessIsKilledWithoutGrace) {
  Play run = Play::training({.num_workers = 2, .max_failures = 1});
  run.feed(WorkerSilent{.worker = run.worker(0), .silent_s = 30, .stopped = true});
  EXPECT_EQ(run.state(), State::restarting);
  EXPECT_EQ(run.wanted<EndWorker>().back().worker, run.worker(0));
  EXPECT_EQ(run.wanted<EndWorker>().back().grace_s, 0.0);
}

TEST(Failure, AProcessThatCannotBeKilledDoesNotHangTheRun) {
  Play run = Play::training();
  run.exit(run.worker(1), {.signal = 9});
  run.fire_timer();
  EXPECT_EQ(run.state(), State::errored);
}

TEST(Failure, EventsOfAnEarlierGroupChangeNothing) {
  Play run = Play::training({.num_workers = 2, .max_failures = 1});
  const auto old = run.workers();
  run.exit(old[0], {.signal = 9});
  run.exit_all();
  run.join_all();
  const RunState before = run.all();
  run.exit(old[1], {.signal = 9});
  run.feed(WorkerFailed{.worker = old[0], .text = "late"});
  run.feed(WorkerFinished{.worker = old[0]});
  run.feed(WorkerSilent{.worker = old[0]});
  run.feed(TimerDue{.turn = before.turn - 1});
  run.feed(ReportRefused{.attempt = {1}, .error = "late"});
  EXPECT_EQ(run.all(), before);
}

TEST(Failure, RefusedReportsCountAsWorkerFailure) {
  Play run = Play::training();
  run.feed(ReportRefused{.attempt = {1}, .report = 3, .error = "the ranks differ"});
  run.exit_all();
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error, HasSubstr("The ranks differ"));
}

TEST(Failure, ATrainLoopThatThrowsBeforeItsRankCountsAsWorkerFailure) {
  Play run;
  run.bring_up_nodes();
  run.feed(WorkerFailed{.worker = run.worker(0), .exception = "UsageError", .text = "no train loop of that name"});
  run.exit_all();
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_EQ(run.all().worker_failures, 1);
}

TEST(Finish, WaitsForPublicationsAndKeepsRankZerosValue) {
  Play run = Play::training();
  run.feed(CheckpointReady{1});
  EXPECT_EQ(run.wanted<PublishCheckpoint>().size(), 1u);
  run.feed(WorkerFinished{.worker = run.worker(1), .reports = 1, .return_value = "one"});
  run.feed(WorkerFinished{.worker = run.worker(0), .reports = 1, .return_value = "zero"});
  EXPECT_EQ(run.state(), State::running);
  run.feed(CheckpointPublished{{.report = 1}});
  EXPECT_EQ(run.state(), State::shutting_down);
  EXPECT_EQ(run.wanted<EndWorker>().size(), 2u);
  run.exit(run.worker(0), {.exit_code = 1});  // a destructor may fail: the loop had returned
  run.exit(run.worker(1));
  EXPECT_EQ(run.state(), State::finished);
  EXPECT_EQ(run.all().return_value, "zero");
  EXPECT_EQ(run.wanted<Finish>().size(), 1u);
}

TEST(Finish, AFailedLastPublicationIsAFailure) {
  Play run = Play::training({.num_workers = 1});
  run.feed(CheckpointReady{1});
  run.feed(WorkerFinished{.worker = run.worker(0)});
  run.feed(PublishFailed{1, "no space left on device"});
  run.exit_all();
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error, HasSubstr("no space left on device"));
}

TEST(Checkpoints, TheNextAttemptStartsFromTheLastAndWaitsForOneOnItsWay) {
  Play run = Play::training({.num_workers = 1, .max_failures = 1});
  run.feed(CheckpointReady{1});
  run.feed(CheckpointPublished{{.report = 1}});
  run.feed(CheckpointReady{2});
  run.feed(WorkerExited{.worker = run.worker(0), .status = {.signal = 9}, .phase = "training", .last_report = 4});
  EXPECT_EQ(run.state(), State::restarting) << "report 2 is being published";
  run.feed(CheckpointPublished{{.report = 2}});
  EXPECT_EQ(run.state(), State::scheduling);
  run.join_all();
  EXPECT_EQ(run.wanted<AssignWorkers>()[0].checkpoint, 2);
  EXPECT_EQ(run.wanted<AssignWorkers>()[0].first_report, 5);
}

TEST(Checkpoints, RetentionNeverDeletesTheLatest) {
  CheckpointConfig config{.num_to_keep = 1, .checkpoint_score_attribute = "score"};
  Play run = Play::training({.num_workers = 1, .checkpoint_config = config});
  for (int64_t report = 1; report <= 3; ++report) {
    run.feed(CheckpointReady{report});
    run.feed(CheckpointPublished{{.report = report, .metrics = {{"score", -report}}}});
    for (const auto& deleted : run.wanted<DeleteCheckpoint>()) EXPECT_NE(deleted.report, report);
  }
  EXPECT_EQ(run.all().checkpoints.front().report, 1);
  EXPECT_EQ(run.all().checkpoints.back().report, 3);
  EXPECT_EQ(run.all().checkpoints.size(), 2u);
}

TEST(Stop, OnceEndsTheWorkersWithGrace) {
  Play run = Play::training({.num_workers = 2, .stop_grace_s = 7});
  run.feed(StopRequested{"interrupted"});
  EXPECT_EQ(run.state(), State::shutting_down);
  EXPECT_EQ(run.wanted<EndWorker>()[0].grace_s, 7);
  run.feed(WorkerFailed{.worker = run.worker(0), .text = "told to stop", .stopped = true});
  run.exit(run.worker(0), {.exit_code = 1});
  run.exit(run.worker(1));
  EXPECT_EQ(run.state(), State::aborted);
  EXPECT_THAT(run.all().error, HasSubstr("interrupted"));
}

TEST(Stop, ThreeTimesKillsAtOnce) {
  Play run = Play::training();
  run.feed(StopRequested{});
  run.feed(StopRequested{});
  EXPECT_TRUE(run.wanted<EndWorker>().empty());
  run.feed(StopRequested{});
  ASSERT_EQ(run.wanted<EndWorker>().size(), 2u);
  EXPECT_EQ(run.wanted<EndWorker>()[0].grace_s, 0);
}

TEST(Stop, EndsARunThatBacksOff) {
  Play run({.num_workers = 1});
  run.bring_up_nodes();
  run.exit(run.worker(0), {.exit_code = 1});
  run.exit(run.worker(0), {.exit_code = 2});
  ASSERT_EQ(run.state(), State::rescheduling);
  run.feed(StopRequested{});
  EXPECT_EQ(run.state(), State::aborted);
}

TEST(Callbacks, TheirFailureEndsTheRunButHidesNothing) {
  Play run = Play::training();
  run.exit(run.worker(0), {.signal = 11});
  run.feed(CallbackFailed{"after_exception", "boom"});
  run.exit_all();
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error, ::testing::StartsWith("Rank 0 of 2 on node node0 crashed with SIGSEGV"));
  EXPECT_THAT(run.all().error, HasSubstr("Callback after_exception failed: boom"));
}

TEST(Callbacks, AreToldWhenTheGroupIsGone) {
  Play run = Play::training({.num_workers = 2, .max_failures = 1});
  run.exit(run.worker(0), {.signal = 11});
  EXPECT_TRUE(run.wanted<TellCallbacks>().empty());
  run.exit_all();
  ASSERT_EQ(run.wanted<TellCallbacks>().size(), 1u);
  EXPECT_EQ(run.wanted<TellCallbacks>()[0].errors.count(0), 1u);
}

TEST(Nodes, ALostOneEndsTheRun) {
  Play run = Play::training({.num_workers = 2, .max_failures = -1});
  run.feed(NodeLost{"node0", "its guardian was killed"});
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error, HasSubstr("its guardian was killed"));
}

TEST(Preemption, HasItsOwnBudget) {
  Play run = Play::training({.num_workers = 2, .max_failures = 0, .max_preemption_failures = 1});
  run.feed(PreemptionNoticed{{"node0"}, 120});
  EXPECT_EQ(run.state(), State::preempting);
  run.exit(run.worker(0), {.signal = 9});
  EXPECT_EQ(run.state(), State::preempting);
  run.exit(run.worker(1), {.signal = 9});
  EXPECT_EQ(run.state(), State::scheduling);
  EXPECT_EQ(run.all().preemption_failures, 1);
  EXPECT_EQ(run.all().worker_failures, 0);
  EXPECT_EQ(run.all().attempt.value, 2);
}

TEST(Preemption, ACleanFinishIsSuccess) {
  Play run = Play::training({.num_workers = 1});
  run.feed(PreemptionNoticed{{"node0"}, 120});
  run.feed(WorkerFinished{.worker = run.worker(0)});
  run.exit_all();
  EXPECT_EQ(run.state(), State::finished);
}

TEST(Resize, StartsTheNextAttemptWithTheOtherSize) {
  Play run = Play::training();
  run.feed(ResizeWanted{4, "more nodes"});
  EXPECT_EQ(run.state(), State::resizing);
  run.exit_all();
  EXPECT_EQ(run.wanted<StartWorker>().size(), 4u);
  EXPECT_EQ(run.all().attempt.value, 2);
  EXPECT_EQ(run.all().worker_failures, 0);
}

TEST(Resume, NumbersAreNeverUsedTwice) {
  Play run = Play::training();
  run.feed(WorkerExited{.worker = run.worker(0), .status = {.signal = 9}, .last_report = 7});
  const WorkerId last = run.worker(1);
  run.feed(RunOpened{.epoch = {2}, .options = {.num_workers = 2}, .checkpoints = {{.report = 5}}, .last_report = 6});
  EXPECT_EQ(run.state(), State::initializing);
  run.bring_up_nodes();
  run.join_all();
  EXPECT_GT(run.worker(0), last);
  EXPECT_EQ(run.all().attempt.value, 2);
  EXPECT_EQ(run.wanted<AssignWorkers>()[0].first_report, 8);
  EXPECT_EQ(run.wanted<AssignWorkers>()[0].checkpoint, 5);
  EXPECT_EQ(run.all().worker_failures, 0);
}

}  // namespace
}  // namespace paceline::controller
