#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/policy/decide_fixture.h"

namespace paceline::policy {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_THAT(run.all().error, HasSubstr("Rank 1 of 2 on node node0 was killed by SIGKILL in the phase training"));
  EXPECT_EQ(run.all().worker_errors.size(), 1u);
}

TEST(Failure, ExitWithZeroInMidLoopIsAFailure) {
  Play run = Play::training();
  run.exit(run.worker(0), {});
  run.exit_all();
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error,
              HasSubstr("exited with code 0 in the phase training, before its train loop had returned"));
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

// As systemd and Slurm do: to all processes of the job.
TEST(Failure, SigtermForWorkersAndDriverIsAStop) {
  Play run = Play::training({.num_workers = 2, .max_failures = 1});
  run.exit(run.worker(0), {.signal = 15});
  EXPECT_EQ(run.state(), State::running) << "the driver may have something to say";
  run.feed(StopRequested{.cause = StopCause::terminated});
  run.exit(run.worker(1), {.signal = 15});
  EXPECT_EQ(run.state(), State::aborted);
  EXPECT_THAT(run.all().error, HasSubstr("The run was stopped: the driver got SIGTERM"));
}

TEST(Failure, SigtermForAWorkerAloneIsAFailure) {
  Play run = Play::training({.num_workers = 2, .max_failures = 0});
  run.exit(run.worker(0), {.signal = 15});
  run.fire_timer();
  run.exit_all();
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error, ::testing::StartsWith("Rank 0 of 2 on node node0 was killed by SIGTERM"));
}

WorkerFailed failed_behind(const Play& run, size_t worker, int64_t report, bool has_checkpoint) {
  return {.worker = run.worker(worker),
          .exception = "ValueError",
          .text = "behind report()",
          .awaited_report = report,
          .awaits_checkpoint = has_checkpoint};
}

TEST(Failure, WaitsForTheOthersToMakeTheReportThatARankHadMade) {
  Play run = Play::training({.num_workers = 2, .max_failures = 1});
  run.feed(failed_behind(run, 0, 1, true));
  EXPECT_EQ(run.state(), State::running) << "the other rank is about to report";
  ASSERT_EQ(run.wanted<SetTimer>().size(), 1u);
  EXPECT_DOUBLE_EQ(to_seconds(run.wanted<SetTimer>()[0].at) - to_seconds(run.now()), 5.0);
  run.feed(WorkerExited{.worker = run.worker(0), .end = {.status = {.exit_code = 1}}, .awaited_report = -1});
  EXPECT_EQ(run.state(), State::restarting) << "files of its own that were on their way are lost with it";
}

TEST(Failure, IsJudgedOnceTheReportIsThere) {
  Play run = Play::training({.num_workers = 2, .max_failures = 1});
  run.feed(failed_behind(run, 0, 1, true));
  run.feed(WorkerExited{.worker = run.worker(0), .end = {.status = {.exit_code = 1}}, .awaited_report = 1});
  EXPECT_EQ(run.state(), State::running);
  run.feed(CheckpointReady{.report = 1});
  run.fire_timer();
  EXPECT_EQ(run.state(), State::restarting);
  run.exit_all();
  EXPECT_EQ(run.state(), State::restarting) << "the checkpoint comes first";
  run.feed(CheckpointPublished{{.report = 1}});
  run.join_all();
  ASSERT_EQ(run.wanted<AssignWorkers>().size(), 1u);
  EXPECT_EQ(run.wanted<AssignWorkers>()[0].checkpoint, 1);
}

TEST(Failure, DoesNotWaitForAReportThatCannotCome) {
  Play run = Play::training({.num_workers = 3, .max_failures = 1});
  run.feed(failed_behind(run, 0, 4, true));
  EXPECT_EQ(run.state(), State::running);
  run.feed(failed_behind(run, 1, -1, false));
  EXPECT_EQ(run.state(), State::restarting) << "rank 1 will not make report 4";
}

TEST(Failure, DoesNotWaitWhenNobodyTrainsAnyMore) {
  Play run = Play::training({.num_workers = 2, .max_failures = 1});
  run.feed(failed_behind(run, 0, 4, true));
  run.feed(failed_behind(run, 1, 5, true));
  EXPECT_EQ(run.state(), State::restarting);
}

// There may be ranks that make no reports at all.
TEST(Failure, OfARankThatDiesAReportWithoutACheckpointIsWaitedForAsLongAsACause) {
  Play run = Play::training({.num_workers = 2, .max_failures = 1});
  run.feed(
      WorkerExited{.worker = run.worker(0), .end = {.status = {.signal = 9}}, .last_report = 1, .awaited_report = 1});
  ASSERT_EQ(run.wanted<SetTimer>().size(), 1u);
  EXPECT_DOUBLE_EQ(to_seconds(run.wanted<SetTimer>()[0].at) - to_seconds(run.now()), kCauseSeconds);
  run.fire_timer();
  EXPECT_EQ(run.state(), State::restarting);
}

HangFound hang_of(const Play& run, bool fail) {
  return {.attempt = run.all().attempt,
          .generation = run.all().generation,
          .suspects = {1},
          .text = "rank 1 makes no progress",
          .evidence = "/runs/hang/1",
          .frames = {"wait (train.cpp:7)"},
          .fail = fail};
}

TEST(Failure, AHangEndsTheGroupWithinTheBudgetIfItShall) {
  Play run = Play::training({.num_workers = 2, .max_failures = 1});
  run.feed(hang_of(run, true));
  EXPECT_EQ(run.state(), State::restarting);
  run.exit_all();
  run.join_all();
  run.feed(hang_of(run, true));
  EXPECT_EQ(run.state(), State::shutting_down);
  run.exit_all();
  EXPECT_THAT(run.all().error, HasSubstr("The run hangs: rank 1 makes no progress; everybody's stacks are in "
                                         "/runs/hang/1\n  at wait (train.cpp:7)"));
}

TEST(Failure, TheWitnessOfAHangTellsItsOwnLinesWhenItIsEnded) {
  Play run = Play::training();
  HangFound hang = hang_of(run, true);
  hang.witness = 0;
  run.feed(hang);
  std::map<WorkerId, double> grace_s;
  for (const EndWorker& end : run.wanted<EndWorker>()) grace_s[end.worker] = end.grace_s;
  EXPECT_GT(grace_s[run.worker(0)], 1) << "looking up the names of its lines takes a moment";
  EXPECT_LT(grace_s[run.worker(1)], 1);
  run.feed(WorkerFailed{.worker = run.worker(1), .frames = {"other (train.cpp:9)"}, .stopped = true});
  run.feed(WorkerFailed{.worker = run.worker(0), .frames = {"sum (train.cpp:8)"}, .stopped = true});
  run.exit_all();
  EXPECT_THAT(run.all().error, AllOf(HasSubstr("\n  at sum (train.cpp:8)"), Not(HasSubstr("train.cpp:7")),
                                     Not(HasSubstr("train.cpp:9"))));
}

TEST(Failure, AHangThatIsObservedIsALineInTheLog) {
  Play run = Play::training();
  run.feed(hang_of(run, false));
  EXPECT_EQ(run.state(), State::running);
  ASSERT_EQ(run.wanted<Note>().size(), 1u);
  EXPECT_EQ(run.wanted<Note>()[0].level, LogLevel::warning);
  EXPECT_THAT(run.wanted<Note>()[0].text, HasSubstr("looks like a hang: rank 1 makes no progress"));
}

TEST(Failure, AHangOfAnEarlierGroupChangesNothing) {
  Play run = Play::training({.num_workers = 2, .max_failures = 1});
  HangFound late = hang_of(run, true);
  late.attempt = {run.all().attempt.value - 1};
  run.feed(late);
  EXPECT_EQ(run.state(), State::running);
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
  run.feed(WorkerExited{
      .worker = run.worker(0), .end = {.status = {.signal = 9}, .phase = Phase::training}, .last_report = 4});
  EXPECT_EQ(run.state(), State::restarting) << "report 2 is being published";
  run.feed(CheckpointPublished{{.report = 2}});
  EXPECT_EQ(run.state(), State::scheduling);
  run.join_all();
  EXPECT_EQ(run.wanted<AssignWorkers>()[0].checkpoint, 2);
  EXPECT_EQ(run.wanted<AssignWorkers>()[0].first_report, 5);
}

void publish_named(Play& run, int64_t report, const std::string& name) {
  run.feed(CheckpointReady{.report = report});
  run.feed(CheckpointPublished{{.report = report, .name = name}});
}

TEST(Checkpoints, ANameThatIsGivenAgainIsTheLaterReports) {
  Play run = Play::training();
  publish_named(run, 1, "latest");
  publish_named(run, 2, "other");
  publish_named(run, 3, "latest");
  ASSERT_EQ(run.wanted<DeleteCheckpoint>().size(), 1u);
  EXPECT_EQ(run.wanted<DeleteCheckpoint>()[0].report, 1);
  EXPECT_TRUE(run.wanted<DeleteCheckpoint>()[0].is_gone) << "the folder is the later one's";
  publish_named(run, 4, "latest.report_4");  // it could not take the place
  ASSERT_EQ(run.wanted<DeleteCheckpoint>().size(), 1u);
  EXPECT_EQ(run.wanted<DeleteCheckpoint>()[0].name, "latest");
  EXPECT_FALSE(run.wanted<DeleteCheckpoint>()[0].is_gone);
  publish_named(run, 5, "model_g1");
  publish_named(run, 6, "model_g2");
  publish_named(run, 7, "x.report_6");
  std::vector<std::string> names;
  for (const PublishedCheckpoint& kept : run.all().checkpoints) names.push_back(kept.name);
  EXPECT_EQ(names, (std::vector<std::string>{"other", "latest.report_4", "model_g1", "model_g2", "x.report_6"}));
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

TEST(Checkpoints, AScoreThatIsNoNumberIsSaidOnce) {
  CheckpointConfig config{.checkpoint_score_attribute = "score"};
  Play run = Play::training({.num_workers = 1, .checkpoint_config = config});
  std::vector<std::string> warnings;
  for (const Json& score : {Json(1), Json("high"), Json(true), Json("higher")}) {
    const int64_t report = std::ssize(run.all().checkpoints) + 1;
    run.feed(CheckpointReady{report});
    run.feed(CheckpointPublished{{.report = report, .metrics = {{"score", score}}}});
    for (const Note& note : run.wanted<Note>()) {
      if (note.level == LogLevel::warning) warnings.push_back(note.text);
    }
  }
  EXPECT_EQ(warnings, std::vector<std::string>{"the checkpoint of report 2 ranks as one without a score: \"score\" "
                                               "(CheckpointConfig.checkpoint_score_attribute) is no number in its "
                                               "metrics"});
}

TEST(Failures, OnlyThoseWhoMayHaveSomethingToSayAreWaitedFor) {
  Play killed = Play::training({.num_workers = 2, .max_failures = 1, .failure_grace_s = 7, .killed_grace_s = 3});
  killed.exit(killed.worker(0), {.signal = SIGKILL});
  EXPECT_EQ(killed.wanted<EndWorker>().back().grace_s, 3);
  Play failed = Play::training({.num_workers = 2, .max_failures = 1, .failure_grace_s = 7, .killed_grace_s = 3});
  failed.feed(WorkerFailed{.worker = failed.worker(0), .text = "bad sample"});
  EXPECT_EQ(failed.wanted<EndWorker>().back().grace_s, 7);
}

TEST(Stop, OnceEndsTheWorkersWithGrace) {
  Play run = Play::training({.num_workers = 2, .stop_grace_s = 7});
  run.feed(StopRequested{.cause = StopCause::interrupt});
  EXPECT_EQ(run.state(), State::shutting_down);
  EXPECT_EQ(run.wanted<EndWorker>()[0].grace_s, 7);
  run.feed(WorkerFailed{.worker = run.worker(0), .text = "told to stop", .stopped = true});
  run.exit(run.worker(0), {.exit_code = 1});
  run.exit(run.worker(1));
  EXPECT_EQ(run.state(), State::aborted);
  EXPECT_THAT(run.all().error, HasSubstr("the driver was interrupted"));
  EXPECT_EQ(run.all().stop_cause, StopCause::interrupt);
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

TEST(Stop, AsFinishedKeepsTheCheckpointThatIsOnItsWay) {
  Play run = Play::training();
  run.feed(CheckpointReady{3});
  run.feed(StopRequested{"accuracy 0.99 is reached", true});
  EXPECT_EQ(run.state(), State::shutting_down);
  for (int i = 0; i < 5; ++i) run.feed(StopRequested{"again", true});  // reports that are still coming
  run.feed(WorkerFailed{.worker = run.worker(0), .text = "told to stop", .stopped = true});
  run.exit_all();
  EXPECT_EQ(run.state(), State::shutting_down);
  run.feed(CheckpointPublished{{.report = 3}});
  EXPECT_EQ(run.state(), State::finished);
  EXPECT_EQ(run.all().error, "");
  EXPECT_EQ(run.all().stop_reason, "accuracy 0.99 is reached");
}

TEST(Stop, AsFinishedWithoutItsLastCheckpointIsAnError) {
  Play run = Play::training();
  run.feed(CheckpointReady{3});
  run.feed(StopRequested{"enough", true});
  run.exit_all();
  run.feed(PublishFailed{3, "the disk is full"});
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_THAT(run.all().error, HasSubstr("the disk is full"));
}

TEST(TimeLimit, CountsOverAttemptsAndContinuations) {
  const RunOptions options{.num_workers = 2, .max_failures = 1, .max_time = 100};
  Play run = Play::training(options);
  EXPECT_EQ(time_limit(run.all())->at, run.now() + std::chrono::seconds(100));
  run.advance(30);
  run.exit(run.worker(0), {.signal = 11});
  run.exit_all();
  EXPECT_EQ(run.all().attempt.value, 2);
  EXPECT_EQ(time_limit(run.all())->at, run.now() + std::chrono::seconds(70));
  run.advance(10);
  run.join_all();
  const double last_seen = to_seconds(run.now());
  run.advance(1000);
  run.feed(RunOpened{.epoch = {2}, .options = options, .last_seen = last_seen});
  EXPECT_EQ(time_limit(run.all())->at, run.now() + std::chrono::seconds(60));
  EXPECT_EQ(time_limit(run.all())->reason,
            "RunConfig.max_time, 100 s, has passed (40 s of it before the run was continued)");
  run.advance(60);
  run.feed(StopRequested{time_limit(run.all())->reason, true});
  EXPECT_EQ(run.state(), State::finished);
  EXPECT_FALSE(time_limit(run.all()));
  run.feed(RunOpened{.epoch = {3}, .options = options, .last_seen = to_seconds(run.now())});
  EXPECT_EQ(time_limit(run.all())->at, run.now()) << "used up";
}

TEST(TimeLimit, BeginsAnewForARunThatHadFinishedByItself) {
  const RunOptions options{.num_workers = 1, .max_time = 100};
  Play run = Play::training(options);
  run.advance(30);
  run.feed(WorkerFinished{.worker = run.worker(0)});
  run.exit_all();
  ASSERT_EQ(run.state(), State::finished);
  run.feed(RunOpened{.epoch = {2}, .options = options, .last_seen = to_seconds(run.now())});
  EXPECT_EQ(time_limit(run.all())->at, run.now() + std::chrono::seconds(100));
}

TEST(Failure, ARankThatObeysTheEndOfItsGroupIsNoPartOfIt) {
  Play run = Play::training({.num_workers = 3});
  run.exit(run.worker(0));
  ASSERT_EQ(run.state(), State::shutting_down);
  const WorkerId second = run.worker(1);
  run.feed(WorkerFailed{.worker = second, .text = "told to stop", .stopped = true});
  run.exit(second, {.exit_code = 1});
  run.exit_all();
  EXPECT_EQ(run.state(), State::errored);
  EXPECT_EQ(run.all().worker_errors.size(), 1u);
  EXPECT_THAT(run.all().error, ::testing::StartsWith("Rank 0 of 3 on node node0 exited with code 0"));
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

TEST(Preemption, TheLossOfItsNodeEndsTheGroupAtOnceAndIsNoFailure) {
  Play run = Play::training({.num_workers = 2,
                             .nodes = 2,
                             .nodes_may_come = true,
                             .cpus_per_worker = 2,
                             .placement_strategy = "SPREAD",
                             .max_failures = 0});
  run.feed(PreemptionNoticed{{"node1"}, 120});
  run.feed(NodeLost{"node1", "its connection broke"});
  EXPECT_EQ(run.state(), State::restarting) << "the other rank would wait for it until the deadline";
  EXPECT_EQ(run.all().preemption_failures, 1);
  EXPECT_EQ(run.all().worker_failures, 0);
}

TEST(Preemption, TheNextGroupAvoidsTheNodeWhereOthersHaveRoom) {
  Play run = Play::training({.num_workers = 1, .nodes = 2, .nodes_may_come = true, .cpus_per_worker = 1});
  const int64_t before = run.all().workers.begin()->second.node;
  run.feed(PreemptionNoticed{{run.all().nodes[static_cast<size_t>(before)].name}, 120});
  run.fire_timer();
  run.exit_all();
  EXPECT_EQ(run.state(), State::scheduling);
  EXPECT_NE(run.all().workers.begin()->second.node, before);
}

RunOptions with_a_spare_node() {
  return {.num_workers = 1,
          .nodes = 2,
          .nodes_may_come = true,
          .cpus_per_worker = 2,
          .max_failures = 0,
          .max_preemption_failures = 0};
}

TEST(Preemption, ANoticeForANodeWithoutWorkersCostsNothing) {
  Play run = Play::training(with_a_spare_node());
  run.feed(PreemptionNoticed{{"node1"}, 120});
  EXPECT_EQ(run.state(), State::running);
  run.advance(120);
  run.feed(NodeLost{"node1", "it was taken away"});
  EXPECT_EQ(run.state(), State::running);
  EXPECT_EQ(run.all().preemption_failures, 0);
}

TEST(Preemption, ANoticeBeforeTheTrainingIsHeededInIt) {
  RunOptions options = with_a_spare_node();
  options.max_preemption_failures = 1;
  Play run(options);
  run.bring_up_nodes();
  ASSERT_EQ(run.state(), State::scheduling);
  run.feed(PreemptionNoticed{{"node0"}, 120});
  run.join_all();
  EXPECT_EQ(run.state(), State::preempting);
  run.feed(NodeLost{"node0", "it was taken away"});
  EXPECT_EQ(run.all().worker_failures, 0);
  EXPECT_EQ(run.all().preemption_failures, 1);
}

TEST(Preemption, ANodeThatIsAboutToGoIsAvoidedUntilThen) {
  RunOptions options = with_a_spare_node();
  options.max_failures = -1;
  options.max_preemption_failures = -1;
  Play run = Play::training(options);
  const auto node = [&run] { return run.all().workers.begin()->second.node; };
  ASSERT_EQ(node(), 0);
  run.feed(PreemptionNoticed{{"node0"}, 120});
  run.advance(120);
  run.fire_timer();
  run.exit_all();
  EXPECT_EQ(node(), 1);
  run.join_all();
  run.feed(WorkerFailed{.worker = run.worker(0), .exception = "E", .text = "failed"});
  run.exit_all();
  if (run.all().backing_off) run.fire_timer();
  EXPECT_EQ(node(), 1) << "it is still about to go";
}

TEST(Preemption, ANodeThatStaysBeyondItsTimeEndsNoOtherGroup) {
  Play run = Play::training({.num_workers = 1, .max_preemption_failures = 1});
  run.feed(PreemptionNoticed{{"node0"}, 120});
  run.advance(120);
  run.fire_timer();
  run.exit_all();
  run.join_all();
  EXPECT_EQ(run.state(), State::running) << "there is no other";
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
  run.feed(WorkerExited{.worker = run.worker(0), .end = {.status = {.signal = 9}}, .last_report = 7});
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
}  // namespace paceline::policy
