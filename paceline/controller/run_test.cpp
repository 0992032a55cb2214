// Whole runs with real processes.

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <future>
#include <semaphore>
#include <thread>

#include "paceline/controller/run_fixture.h"
#include "paceline/core/run_layout.h"
#include "paceline/run/collectives.h"
#include "paceline/run/control_client.h"
#include "paceline/run/status_watch.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/local/run_lock.h"

namespace paceline::controller {

using namespace policy;

agent::Guardian& guardian() {
  static agent::Guardian guardian = agent::Guardian::fork_now().ValueOrDie();
  return guardian;
}

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Json fault(int64_t rank, int64_t attempt, int64_t at, const std::string& what, Json more = Json::object()) {
  more.update({{"rank", rank}, {"attempt", attempt}, {"at", at}, {"do", what}});
  return more;
}

TEST_F(RunTest, FinishesWithReportsCheckpointsAndAValue) {
  const RunOutcome outcome = run({{"reports", 4}, {"checkpoint_every", 2}, {"value", {{"answer", 42}}}});
  EXPECT_EQ(outcome.state, FinalState::finished);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.return_value["answer"], 42);
  EXPECT_THAT(checkpoints(), ElementsAre(2, 4));
  const auto rows = history();
  ASSERT_EQ(rows.size(), 8u) << "each report of each rank";
  EXPECT_EQ(rows[6].report, 4);
  EXPECT_EQ(rows[6].checkpoint, "checkpoint_000004");
  EXPECT_EQ(rows[5].checkpoint, "");
}

TEST_F(RunTest, AConfigurationLargerThanAMessageReachesTheWorkers) {
  request_.run_config.failure_config.controller_failure_limit = 0;
  request_.run_config.failure_config.start_timeout_s = 20;
  const RunOutcome outcome = run({{"reports", 1}, {"value", 42}, {"ballast", std::string(rpc::kMaxHeadBytes, 'x')}});
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.return_value, 42);
}

TEST_F(RunTest, AStartThatIsTooLargeToBeSentEndsTheRunAtOnceWithTheSizes) {
  request_.run_config.failure_config.start_timeout_s = 20;
  request_.run_config.worker_environment["BALLAST"] = std::string(rpc::kMaxHeadBytes, 'x');
  const RunOutcome outcome = run({{"reports", 1}});
  EXPECT_EQ(outcome.state, FinalState::errored);
  EXPECT_EQ(run::replay(folder_.path())->value().failure_kind, FailureKind::start);
  EXPECT_THAT(outcome.error, HasSubstr("too large: wanted at most 16777216 bytes, got 167"));
  EXPECT_EQ(run::replay(folder_.path())->value().start_failures, 0) << "it is not tried again";
}

TEST_F(RunTest, CallbacksSeeEveryReportInOrder) {
  callback_ = std::make_shared<TestCallback>();
  std::vector<int64_t> steps, published;
  callback_->report = [&](const RunContext& run, const std::vector<Metrics>& metrics, const Checkpoint* checkpoint) {
    EXPECT_EQ(run.world_size, 2);
    ASSERT_EQ(metrics.size(), 2u);
    steps.push_back(metrics[1].get<int64_t>("step"));
    if (checkpoint != nullptr) published.push_back(steps.back());
  };
  run({{"reports", 5}, {"checkpoint_every", 2}});
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(published, ElementsAre(2, 4));
}

TEST_F(RunTest, CallbacksSeeStartsFailuresAndTheEnd) {
  request_.run_config.failure_config.max_failures = 1;
  callback_ = std::make_shared<TestCallback>();
  std::vector<std::string> told;
  callback_->start = [&](const RunContext& run) { told.push_back("start " + std::to_string(run.attempt)); };
  callback_->exception = [&](const RunContext& run, const std::map<int64_t, std::string>&) {
    told.push_back("exception " + std::to_string(run.attempt));
  };
  callback_->finish = [&](const RunContext& run, const RunEnding& ending) {
    told.push_back(ending.state + " " + std::to_string(run.attempt));
    EXPECT_EQ(history().back().attempt, 2) << "the history is complete";
    throw std::runtime_error("too late to end anything");
  };
  const RunOutcome outcome = run({{"reports", 2}, {"faults", {fault(0, 1, 2, "throw")}}});
  EXPECT_EQ(outcome.state, FinalState::finished) << outcome.error;
  EXPECT_THAT(told, ElementsAre("start 1", "exception 1", "start 2", "finished 2"));
}

TEST_F(RunTest, ACallbackStopsTheRun) {
  callback_ = std::make_shared<TestCallback>();
  std::optional<RunContext> kept;
  callback_->report = [&](const RunContext& run, const std::vector<Metrics>&, const Checkpoint* checkpoint) {
    kept = run;
    if (checkpoint != nullptr) run.stop("the first checkpoint is there");
  };
  std::string reason;
  callback_->finish = [&](const RunContext&, const RunEnding& ending) { reason = ending.stop_reason; };
  const RunOutcome outcome = run({{"reports", 100'000}, {"step_ms", 10}, {"checkpoint_every", 2}});
  EXPECT_EQ(outcome.state, FinalState::finished) << outcome.error;
  EXPECT_EQ(reason, "the first checkpoint is there");
  EXPECT_EQ(checkpoints().front(), 2);
  kept->stop("too late, and harmless");
}

TEST_F(RunTest, MaxTimeEndsTheRunAsFinished) {
  request_.run_config.max_time = 0.5;
  const RunOutcome first = run({{"reports", 100'000}, {"step_ms", 10}, {"checkpoint_every", 1}});
  EXPECT_EQ(first.state, FinalState::finished) << first.error;
  EXPECT_THAT(run::replay(folder_.path())->value().stop_reason, HasSubstr("RunConfig.max_time, 0.5 s, has passed"));
  const size_t rows = history().size();
  EXPECT_EQ(run({{"reports", 100'000}, {"step_ms", 10}}).state, FinalState::finished) << "used up: ends at once";
  EXPECT_EQ(history().size(), rows);
}

TEST_F(RunTest, TrackersGetEveryReportOverRestartsAndDrivers) {
  request_.run_config.failure_config.max_failures = 1;
  request_.run_config.trackers = {{.kind = "json_lines"}, {.kind = "json_lines", .path = folder_ / "blocked"}};
  paceline::testing::write_file(folder_ / "blocked", "a file where a folder shall be");
  const Json config = {{"reports", 3}, {"checkpoint_every", 2}, {"wait_for_commit", true}};
  Json with_fault = config;
  with_fault["faults"] = {fault(1, 1, 3, "signal", {{"signal", SIGKILL}})};
  EXPECT_EQ(run(with_fault).state, FinalState::finished) << "a tracker that fails stops nothing";
  EXPECT_EQ(run(config).state, FinalState::finished);
  std::vector<int64_t> tracked, reported;
  std::istringstream lines(storage::read_file(folder_ / "metrics_flat.jsonl").ValueOrDie());
  std::vector<std::string> checkpoints;
  for (std::string text; std::getline(lines, text);) {
    const Json line = Json::parse(text);
    if (line["checkpoint"].is_string()) {
      checkpoints.push_back(line["checkpoint"]);
    } else {
      tracked.push_back(line["report"]);
    }
  }
  for (const track::HistoryRow& row : history()) {
    if (row.rank == 0) reported.push_back(row.report);
  }
  EXPECT_EQ(tracked, reported);
  EXPECT_GE(tracked.size(), 8u);
  EXPECT_EQ(checkpoints.size(), 3u);
}

TEST_F(RunTest, AWorkerThatIsKilledRestartsAllFromTheLastCheckpoint) {
  request_.run_config.failure_config.max_failures = 1;
  const RunOutcome outcome = run({{"reports", 3},
                                  {"checkpoint_every", 2},
                                  {"wait_for_commit", true},
                                  {"faults", {fault(1, 1, 3, "signal", {{"signal", SIGKILL}})}}});
  EXPECT_EQ(outcome.state, FinalState::finished) << outcome.error;
  const auto rows = history();
  EXPECT_EQ(rows.back().attempt, 2);
  EXPECT_EQ(rows.back().metrics["from"], folder_ / "checkpoint_000002");
  // Report 3 may have come from rank 0 before it was ended: no number is used twice.
  EXPECT_GE(rows.back().report, 5);
  EXPECT_EQ(checkpoints().front(), 2);
}

TEST_F(RunTest, WithoutBudgetTheErrorTellsAll) {
  const RunOutcome outcome =
      run({{"reports", 3}, {"step_ms", 1000}, {"faults", {fault(1, 0, 2, "signal", {{"signal", SIGSEGV}})}}});
  EXPECT_EQ(outcome.state, FinalState::errored);
  EXPECT_THAT(outcome.error, StartsWith("Rank 1 of 2 on node "));
  EXPECT_THAT(outcome.error, HasSubstr(" crashed with SIGSEGV"));
  EXPECT_THAT(outcome.error, HasSubstr("in step 2 (training)"));
  EXPECT_THAT(outcome.error, HasSubstr("\n  | step 2"));
  EXPECT_THAT(outcome.error, HasSubstr("All that it wrote: " + (folder_ / "logs/worker_2.log")));
  EXPECT_EQ(outcome.worker_errors.count(1), 1u);
}

TEST_F(RunTest, ExitInMidLoopIsAFailure) {
  const RunOutcome outcome = run({{"step_ms", 1000}, {"faults", {fault(0, 0, 2, "exit")}}});
  EXPECT_EQ(outcome.state, FinalState::errored);
  EXPECT_THAT(outcome.error, HasSubstr("Rank 0 of 2"));
  EXPECT_THAT(outcome.error, HasSubstr("exited with code 0 in step 2"));
  EXPECT_EQ(outcome.worker_errors.size(), 1u);
}

TEST_F(RunTest, TheSameExceptionOnBothRanksIsShownOnce) {
  callback_ = std::make_shared<TestCallback>();
  std::map<int64_t, std::string> told;
  callback_->exception = [&](const RunContext&, const std::map<int64_t, std::string>& errors) { told = errors; };
  const RunOutcome outcome = run({{"step_ms", 2000}, {"faults", {fault(-1, 0, 1, "throw")}}});
  EXPECT_THAT(outcome.error, StartsWith("Rank"));
  EXPECT_THAT(outcome.error, HasSubstr("failed with std::runtime_error: simulated\n  at loop (x.cpp:7)"));
  EXPECT_FALSE(told.empty());
}

TEST_F(RunTest, ACollateralFailureDoesNotHideTheCause) {
  const RunOutcome outcome = run({{"faults", {fault(0, 0, 2, "collateral"), fault(1, 0, 2, "exit", {{"code", 7}})}}});
  EXPECT_THAT(outcome.error, StartsWith("Rank 1 of 2"));
  EXPECT_THAT(outcome.error, HasSubstr("exited with code 7"));
}

TEST_F(RunTest, AStoppedProcessIsFoundByItsSilence) {
  request_.run_config.failure_config.heartbeat_timeout_s = 2;
  const RunOutcome outcome = run({{"step_ms", 60'000}, {"faults", {fault(1, 0, 1, "signal", {{"signal", SIGSTOP}})}}});
  EXPECT_EQ(outcome.state, FinalState::errored);
  EXPECT_THAT(outcome.error, HasSubstr("gave no sign of life for 2 s: the process is stopped by a signal (SIGSTOP)"));
}

TEST_F(RunTest, DifferentCountsWithACheckpointNameTheRanks) {
  const RunOutcome outcome = run({{"reports", 4}, {"checkpoint_every", 4}, {"faults", {fault(1, 0, 3, "return")}}});
  EXPECT_EQ(outcome.state, FinalState::errored);
  EXPECT_THAT(outcome.error, HasSubstr("rank 1 returned after 2 reports; rank 0 has made 4 reports"));
}

TEST_F(RunTest, SurplusMetricsAreStored) {
  const RunOutcome outcome = run({{"reports", 4}, {"faults", {fault(1, 0, 3, "return")}}});
  EXPECT_EQ(outcome.state, FinalState::finished) << outcome.error;
  EXPECT_EQ(history().size(), 6u);
}

TEST_F(RunTest, DeathInTheLaunchWindowIsTriedAgainWithoutMaxFailures) {
  const Json more = {{"signal", SIGKILL}, {"generation", 0}};
  const RunOutcome outcome = run({{"faults", {fault(1, 0, 0, "signal", more)}}});
  EXPECT_EQ(outcome.state, FinalState::finished) << outcome.error;
  const RunState state = run::replay(folder_.path()).ValueOrDie().value();
  EXPECT_EQ(state.start_failures, 1);
  EXPECT_EQ(state.worker_failures, 0);
  EXPECT_EQ(state.attempt.value, 1);
}

TEST_F(RunTest, ProcessesThatNeverJoinEndTheRun) {
  ::setenv("PACELINE_TEST_BEFORE_JOIN", "exit", 1);
  const RunOutcome outcome = run({});
  ::unsetenv("PACELINE_TEST_BEFORE_JOIN");
  EXPECT_EQ(outcome.state, FinalState::errored);
  EXPECT_THAT(outcome.error, HasSubstr("exited with code 3 before it had joined"));
}

TEST_F(RunTest, AStartThatTakesTooLongIsAnError) {
  ::setenv("PACELINE_TEST_BEFORE_JOIN", "hang", 1);
  request_.run_config.failure_config.start_timeout_s = 0.2;
  request_.run_config.failure_config.controller_failure_limit = 1;
  const RunOutcome outcome = run({});
  ::unsetenv("PACELINE_TEST_BEFORE_JOIN");
  EXPECT_EQ(outcome.state, FinalState::errored);
  EXPECT_THAT(outcome.error, HasSubstr("2 of 2 workers did not join within 0.2 s"));
}

TEST_F(RunTest, AProgramThatIsNotThereIsNamed) {
  request_.start.program = {"/no/such/program"};
  request_.run_config.failure_config.controller_failure_limit = 0;
  const RunOutcome outcome = run({});
  EXPECT_EQ(outcome.state, FinalState::errored);
  EXPECT_THAT(outcome.error, HasSubstr("/no/such/program"));
}

TEST_F(RunTest, AGuardianThatIsKilledIsALostNode) {
  agent::Guardian own = agent::Guardian::fork_now().ValueOrDie();
  callback_ = std::make_shared<TestCallback>();
  callback_->report = [&](const RunContext&, const std::vector<Metrics>& metrics, const Checkpoint*) {
    if (metrics[0].get<int64_t>("step") == 2) ::kill(own.pid(), SIGKILL);
  };
  request_.run_config.failure_config.max_failures = 3;
  const RunOutcome outcome = run({{"reports", 1000}, {"step_ms", 10}}, own);
  EXPECT_EQ(outcome.state, FinalState::errored);
  EXPECT_THAT(outcome.error, StartsWith("Node "));
  EXPECT_THAT(outcome.error,
              HasSubstr("is lost: the guardian, which starts the workers, has ended; start the program"));
  EXPECT_EQ(run::replay(folder_.path()).ValueOrDie()->worker_failures, 0);
}

TEST_F(RunTest, TheLogGivesAReasonForEachState) {
  run({{"reports", 2}, {"faults", {fault(1, 0, 2, "throw")}}});
  std::ifstream file(folder_ / "logs/controller.log");
  const std::string log{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(log, HasSubstr("scheduling -> running: all workers have joined"));
  EXPECT_THAT(log,
              ::testing::ContainsRegex("running -> shutting_down: rank 1 of 2 on node .* failed with std::runtime"));
  EXPECT_THAT(log, HasSubstr("\n  at loop (x.cpp:7)")) << "the error in full";
}

TEST_F(RunTest, OneStopEndsInOrderAndKeepsCheckpoints) {
  callback_ = std::make_shared<TestCallback>();
  callback_->report = [&](const RunContext&, const std::vector<Metrics>&, const Checkpoint* checkpoint) {
    if (checkpoint != nullptr) stop_.stop();
  };
  const RunOutcome outcome = run({{"reports", 1000}, {"step_ms", 10}, {"checkpoint_every", 2}});
  EXPECT_EQ(outcome.state, FinalState::aborted);
  EXPECT_THAT(outcome.error, HasSubstr("The run was stopped"));
  EXPECT_EQ(checkpoints().front(), 2);
}

TEST_F(RunTest, ThreeStopsKillAtOnce) {
  request_.run_config.failure_config.stop_grace_s = 3600;
  callback_ = std::make_shared<TestCallback>();
  callback_->report = [&](const RunContext&, const std::vector<Metrics>&, const Checkpoint*) {
    for (int i = 0; i < 3; ++i) stop_.stop();
  };
  const RunOutcome outcome = run({{"faults", {fault(-1, 0, 2, "ignore_stop")}}});
  EXPECT_EQ(outcome.state, FinalState::aborted);
}

TEST_F(RunTest, AStoppedRunContinues) {
  callback_ = std::make_shared<TestCallback>();
  bool stopped = false;  // once: a request that nobody takes any more would stop the next run
  callback_->report = [&](const RunContext&, const std::vector<Metrics>& metrics, const Checkpoint* checkpoint) {
    if (checkpoint != nullptr && !std::exchange(stopped, true)) stop_.stop();
  };
  EXPECT_EQ(run({{"reports", 1000}, {"step_ms", 10}, {"checkpoint_every", 2}}).state, FinalState::aborted);
  const int64_t latest = checkpoints().back();
  const int64_t seen = history().back().report;
  callback_->report = nullptr;
  EXPECT_EQ(run({{"reports", 2}, {"checkpoint_every", 1}}).state, FinalState::finished);
  const auto rows = history();
  EXPECT_EQ(rows.back().attempt, 2);
  EXPECT_GT(rows.back().report, seen);
  EXPECT_EQ(rows.back().metrics["from"], folder_ / run_layout::checkpoint_folder(latest));
  EXPECT_GE(checkpoints().size(), 3u);
}

TEST_F(RunTest, AFinishedRunTrainsAgainWithAnotherSize) {
  EXPECT_EQ(run({{"reports", 2}, {"checkpoint_every", 2}}).state, FinalState::finished);
  request_.scaling_config.num_workers = 1;
  EXPECT_EQ(run({{"reports", 1}}).state, FinalState::finished);
  const auto rows = history();
  EXPECT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows.back().report, 3);
  EXPECT_EQ(rows.back().attempt, 2);
  EXPECT_EQ(rows.back().metrics["from"], folder_ / "checkpoint_000002");
  EXPECT_THAT(checkpoints(), ElementsAre(2));
}

TEST_F(RunTest, ANewRunStartsFromTheCheckpointAskedFor) {
  request_.resume_from_checkpoint = "/elsewhere/checkpoint_000007";
  run({{"reports", 1}});
  EXPECT_EQ(history().back().metrics["from"], "/elsewhere/checkpoint_000007");
}

TEST_F(RunTest, RetentionKeepsTheNewest) {
  request_.run_config.checkpoint_config.num_to_keep = 2;
  run({{"reports", 6}, {"checkpoint_every", 1}});
  EXPECT_THAT(checkpoints(), ElementsAre(5, 6));
}

TEST_F(RunTest, ACallbackThatThrowsEndsTheRun) {
  callback_ = std::make_shared<TestCallback>();
  callback_->report = [](const RunContext&, const std::vector<Metrics>&, const Checkpoint*) {
    throw std::runtime_error("no such metric");
  };
  const RunOutcome outcome = run({{"reports", 1000}, {"step_ms", 10}});
  EXPECT_EQ(outcome.state, FinalState::errored);
  EXPECT_THAT(outcome.error,
              HasSubstr("Callback paceline::controller::TestCallback::after_report failed: no such metric"));
}

TEST_F(RunTest, TheCommandLineSeesAndStopsALiveRun) {
  callback_ = std::make_shared<TestCallback>();
  std::future<arrow::Result<Json>> status;
  callback_->report = [&](const RunContext&, const std::vector<Metrics>& metrics, const Checkpoint*) {
    if (metrics[0].get<int64_t>("step") != 2) return;
    status = std::async(std::launch::async, [folder = folder_.path()] {
      auto seen = run::request_status(folder);
      const auto stopping = run::request_stop(folder, "enough");
      EXPECT_EQ(stopping.ValueOrDie()["state"], "shutting_down");
      return seen;
    });
  };
  request_.run_config.failure_config.stop_grace_s = 0.1;
  const RunOutcome outcome = run({{"reports", 3}, {"faults", {fault(-1, 0, 3, "ignore_stop")}}});
  EXPECT_EQ(outcome.state, FinalState::aborted);
  EXPECT_THAT(outcome.error, HasSubstr("enough"));
  const Json seen = status.get().ValueOrDie();
  EXPECT_EQ(seen["state"], "running");
  EXPECT_EQ(seen["metrics"]["step"], 2);
  ASSERT_EQ(seen["workers"].size(), 2u);
  EXPECT_EQ(seen["workers"][1]["rank"], 1);
  EXPECT_EQ(seen["workers"][1]["phase"], "training");
  EXPECT_GT(seen["workers"][1]["pid"], 1);
  EXPECT_FALSE(run::request_status(folder_.path()).ok());
}

TEST_F(RunTest, WhoWatchesALiveRunIsToldWhatBecomesOfIt) {
  callback_ = std::make_shared<TestCallback>();
  std::promise<void> is_over;
  std::counting_semaphore<> changes(0);
  const auto watch = run::StatusWatch::start({.on_change = [&](const std::string& folder) {
    EXPECT_EQ(folder, folder_.path());
    changes.release();
  }});
  EXPECT_TRUE(watch->status(folder_.path(), std::chrono::seconds(20)).status().IsIOError()) << "there is none";
  callback_->report = [&](const RunContext&, const std::vector<Metrics>& metrics, const Checkpoint*) {
    if (metrics[0].get<int64_t>("step") != 2) return;
    // This thread is the controller's: it answers when the callback has returned.
    std::thread([&, folder = folder_.path()] {
      const Json first = watch->status(folder, std::chrono::seconds(20)).ValueOrDie();
      EXPECT_EQ(first["state"], "running");
      EXPECT_EQ(first["workers"][1]["phase"], "training");
      Json later = first;
      while (later["last_report"] == first["last_report"]) {
        changes.acquire();  // it is told, nobody asks
        later = watch->status(folder, std::chrono::seconds(20)).ValueOrDie();
      }
      EXPECT_TRUE(run::request_stop(folder, "enough").ok());
      is_over.set_value();
    }).detach();
  };
  EXPECT_EQ(run({{"reports", 1'000'000}, {"step_ms", 10}}).state, FinalState::aborted);
  is_over.get_future().wait();
  arrow::Result<Json> last = Json();
  while ((last = watch->status(folder_.path(), std::chrono::seconds(20))).ok()) changes.acquire();
  EXPECT_TRUE(last.status().IsIOError()) << last.status();
}

// A run in a driver of its own, because its environment or its death must not be the test's.
int drive(const std::string& run_folder, Json config) {
  agent::Guardian guardian = agent::Guardian::fork_now().ValueOrDie();
  const auto lock = storage::RunLock::acquire(run_folder).ValueOrDie();
  std::ofstream(run_folder + "/guardian") << guardian.pid();
  for (Json& fault : config["faults"]) {
    if (fault["do"] == "kill") fault["pid"] = ::getpid();
  }
  RunRequest request = test_request(run_folder, config);
  request.run_config.failure_config.max_failures = 1;
  LocalLauncher launcher(guardian);
  SystemClock clock;
  StopSignal stop;
  return run_to_end(request, launcher, clock, stop).ValueOrDie().state == FinalState::finished ? 0 : 1;
}

int run_in_driver(const std::string& run_folder, const Json& config, const std::string& fail_points = "") {
  const std::string text = config.dump();
  const pid_t driver = ::fork();
  if (driver == 0) {
    ::setenv("PACELINE_FAIL_POINTS", fail_points.c_str(), 1);
    ::execl("/proc/self/exe", "run", "--drive", run_folder.c_str(), text.c_str(), nullptr);
    ::_exit(127);
  }
  int ended = 0;
  EXPECT_EQ(::waitpid(driver, &ended, 0), driver);
  return ended;
}

TEST_F(RunTest, ACheckpointThatCannotBePublishedIsAWorkerFailure) {
  const int ended =
      run_in_driver(folder_.path(), {{"reports", 2}, {"checkpoint_every", 2}}, "publish.before_rename=error");
  EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0) << ended;
  const RunState state = run::replay(folder_.path()).ValueOrDie().value();
  EXPECT_EQ(state.worker_failures, 1);
  EXPECT_EQ(state.attempt.value, 2);
  EXPECT_THAT(checkpoints(), ElementsAre(4));
  EXPECT_EQ(history().front().checkpoint, "");
}

TEST_F(RunTest, AKilledDriversRunContinues) {
  const paceline::testing::TemporaryFolder sockets;
  const std::filesystem::path runtime = sockets.path();
  ::setenv("XDG_RUNTIME_DIR", runtime.c_str(), 1);
  const Json config = {
      {"reports", 5}, {"checkpoint_every", 2}, {"wait_for_commit", true}, {"faults", {fault(0, 1, 4, "kill")}}};
  const int ended = run_in_driver(folder_.path(), config);
  ASSERT_TRUE(WIFSIGNALED(ended)) << ended;
  expect_no_process();
  expect_no_guardian();
  for (const char* left : {"control.sock", ".staging"}) {
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(folder_ / left))) << left;
  }
  EXPECT_FALSE(std::filesystem::exists(runtime / "paceline"));
  ::unsetenv("XDG_RUNTIME_DIR");
  EXPECT_FALSE(is_terminal(run::replay(folder_.path()).ValueOrDie()->state));
  EXPECT_THAT(checkpoints(), ElementsAre(2));
  const RunOutcome outcome = run({{"reports", 2}, {"checkpoint_every", 2}});
  EXPECT_EQ(outcome.state, FinalState::finished) << outcome.error;
  const RunState state = run::replay(folder_.path()).ValueOrDie().value();
  EXPECT_EQ(state.epoch.value, 2);
  EXPECT_EQ(state.attempt.value, 2);
  EXPECT_EQ(history().back().metrics["from"], folder_ / "checkpoint_000002");
  EXPECT_EQ(checkpoints().size(), 2u);
}

// Where the lock does not tell whether there is a successor.
TEST_F(RunTest, OfAKilledDriverInAFolderThatMachinesShareOnlyItsOwnStagesAreRemoved) {
  paceline::testing::write_file(folder_ / ".lease/000001_other", R"({"pid":7,"host":"other","ended":true})");
  const int ended = run_in_driver(folder_.path(), {{"reports", 5}, {"faults", {fault(0, 1, 4, "kill")}}});
  ASSERT_TRUE(WIFSIGNALED(ended)) << ended;
  expect_no_process();
  expect_no_guardian();
  EXPECT_THAT(paceline::testing::names_in(folder_ / ".staging"), ElementsAre(".storage_proof"));
}

// How long it takes from run_to_end() to the workers' places, and from a worker's death to the next ones.
TEST_F(RunTest, StartsAndRestartsQuickly) {
  request_.run_config.failure_config.max_failures = 1;
  const double start = to_seconds(clock_.now());
  run({{"reports", 1}, {"step_ms", 50}, {"faults", {fault(1, 1, 1, "signal", {{"signal", SIGKILL}})}}});
  double death = 0, first = 0, second = 0;
  EXPECT_TRUE(run::read_journal(folder_.path(), [&](const Event& event, Time time) {
                const auto* exited = std::get_if<WorkerExited>(&event);
                if (exited != nullptr && death == 0) death = to_seconds(time);
                if (!std::holds_alternative<WorkerJoined>(event)) return;
                (death == 0 ? first : second) = to_seconds(time);
              }).ok());
  const auto row = history().back();
  RecordProperty("start_to_assign_ms", static_cast<int>(1000 * (first - start)));
  RecordProperty("death_to_assign_ms", static_cast<int>(1000 * (row.metrics["assigned"].get<double>() - death)));
  std::printf("run_to_end to assignment: %.1f ms; noticed death to assignment: %.1f ms\n", 1000 * (first - start),
              1000 * (second - death));
  EXPECT_LT(first - start, 20);
}

TEST_F(RunTest, TheLastCollectivesOfAKilledWorkerAreKept) {
  request_.run_config.failure_config.max_failures = 1;
  const RunOutcome outcome = run({{"reports", 5},
                                  {"step_ms", 20},
                                  {"collectives", true},
                                  {"faults", {fault(1, 1, 3, "signal", {{"signal", SIGKILL}})}}});
  EXPECT_EQ(outcome.state, FinalState::finished);
  const auto bytes = storage::read_file(folder_ / "collectives/attempt_1/rank_1").ValueOrDie();
  const run::KeptCollectives killed = run::decode_flight_recording(bytes).ValueOrDie();
  EXPECT_EQ(killed.rank, 1);
  EXPECT_EQ(killed.world_size, 2);
  EXPECT_TRUE(killed.has_ended);
  const std::vector<CollectiveRecord>& records = killed.reading.records;
  ASSERT_EQ(records.size(), 3u);
  EXPECT_TRUE(records[1].has_ended());
  EXPECT_TRUE(records[2].is_under_way());
  EXPECT_EQ(records[2].step, 3);
  EXPECT_EQ(records[2].call.bytes, 4 << 20);
  for (const int64_t time : {records[2].called_ns, records[2].waited_ns, killed.reading.taken_ns}) {
    EXPECT_NEAR(static_cast<double>(time) / 1e9, to_seconds(clock_.now()), 600) << "the wall clock";
  }
  EXPECT_GE(killed.reading.taken_ns, records[2].called_ns);
  const run::CollectivesOfAttempt last = run::read_kept_collectives(folder_.path()).ValueOrDie();
  EXPECT_EQ(last.attempt.value, 2);
  ASSERT_EQ(last.ranks.size(), 2u);
  EXPECT_EQ(last.ranks[0].reading.records.size(), 5u);
}

}  // namespace

int drive_run(const std::string& run_folder, const std::string& config) {
  return drive(run_folder, Json::parse(config));
}

}  // namespace paceline::controller

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--drive") == 0) return paceline::controller::drive_run(argv[2], argv[3]);
  paceline::controller::guardian();  // while there is one thread
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
