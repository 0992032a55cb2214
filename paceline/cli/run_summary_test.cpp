#include "paceline/cli/run_summary.h"

#include <gmock/gmock.h>

#include "paceline/controller/decide.h"
#include "paceline/controller/journal.h"
#include "paceline/core/clock.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/track/history.h"

namespace paceline::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryFolder;

// Writes a journal as the controller does: each event, ten seconds apart, as the state asks for it.
class Recorder {
 public:
  explicit Recorder(const std::string& folder) : journal_(controller::Journal::open(folder).ValueOrDie()) {}

  void add(const controller::Event& event) {
    clock_.advance(10s);
    const Time now = controller::journal_time(clock_.now());
    EXPECT_TRUE(journal_.append(event, {1}, now).ok());
    controller::decide(state_, event, now);
  }
  const controller::RunState& state() const { return state_; }
  // The only worker of the group there is now.
  WorkerId worker() const { return state_.workers.empty() ? WorkerId{} : state_.workers.rbegin()->first; }
  void start_worker() {
    const int64_t attempt = state_.attempt.value;
    const WorkerId id = worker();
    add(controller::WorkerStarted{.worker = id, .pid = 100 + attempt});
    add(controller::WorkerJoined{.worker = id, .pid = 100 + attempt});
  }

 private:
  ManualClock clock_{from_seconds(1'800'000'000)};
  controller::Journal journal_;
  controller::RunState state_;
};

// One worker; its first attempt throws, the second publishes a checkpoint.
void record_run(Recorder& run) {
  run.add(controller::RunOpened{.epoch = {1}, .name = "mnist", .options = {.num_workers = 1, .max_failures = 1}});
  run.add(controller::NodeJoined{.node = {.name = "local", .cores = 2}});
  run.start_worker();
  run.add(controller::WorkerFailed{.worker = run.worker(), .exception = "std::runtime_error", .text = "no such digit"});
  run.add(controller::WorkerExited{.worker = run.worker(), .status = {.exit_code = 1}});
  if (run.state().workers.empty() || run.state().backing_off) run.add(controller::TimerDue{.turn = run.state().turn});
  run.start_worker();
  run.add(controller::CheckpointReady{.report = 1});
  run.add(controller::CheckpointPublished{.checkpoint = {.report = 1, .metrics = {{"loss", 0.25}}, .time = 1.0}});
}

TEST(RunSummary, TellsAttemptsCheckpointsAndMetricsFromTheFolderAlone) {
  const TemporaryFolder folder;
  Recorder recorder(folder.path());
  record_run(recorder);
  auto history = track::HistoryWriter::open(folder.path()).ValueOrDie();
  for (const int64_t rank : {0, 1}) {
    ASSERT_TRUE(
        history.append({.report = 7, .rank = rank, .metrics = {{"loss", 0.5 + static_cast<double>(rank)}}}).ok());
  }
  ASSERT_TRUE(history.flush().ok());

  const RunSummary run = read_run(folder.path()).ValueOrDie();
  EXPECT_EQ(run.name, "mnist");
  EXPECT_EQ(run.state, "running");
  ASSERT_EQ(run.attempts.size(), 2u);
  EXPECT_THAT(run.attempts[0].failure, HasSubstr("no such digit"));
  EXPECT_EQ(run.attempts[1].failure, "");
  EXPECT_EQ(run.attempts[1].world_size, 1);
  EXPECT_LE(run.attempts[0].end, run.attempts[1].start);
  ASSERT_EQ(run.checkpoints.size(), 1u);
  EXPECT_EQ(run.report, 7);
  EXPECT_EQ(run.metrics, Json({{"loss", 0.5}}));
  EXPECT_EQ(Json(run).get<RunSummary>(), run);

  const std::string text = to_text(run);
  EXPECT_THAT(text, HasSubstr("mnist: running, but its driver is gone; fit() with the same name"));
  EXPECT_THAT(text, HasSubstr("attempt 1    1 worker, 2027-01-15T"));
  EXPECT_THAT(text, HasSubstr("no such digit"));
  EXPECT_THAT(text, HasSubstr("checkpoint_000001  loss 0.25\n"));
  EXPECT_THAT(text, HasSubstr("report 7     loss 0.5\n"));
}

TEST(RunSummary, AFinishedRunNeedsNoDriver) {
  const TemporaryFolder folder;
  Recorder recorder(folder.path());
  record_run(recorder);
  recorder.add(controller::WorkerFinished{.worker = recorder.worker(), .reports = 1});
  recorder.add(controller::WorkerExited{.worker = recorder.worker(), .last_report = 1});
  const RunSummary run = read_run(folder.path()).ValueOrDie();
  EXPECT_TRUE(is_over(run)) << run.state;
  EXPECT_THAT(to_text(run), AllOf(HasSubstr("mnist: finished\n"), Not(HasSubstr("driver"))));
}

TEST(RunSummary, ALiveRunTellsWhereItsWorkersAre) {
  RunSummary run{.name = "mnist", .path = "/runs/mnist", .state = "scheduling", .report = 3};
  add_live_status(
      {{"state", "running"},
       {"since", 5.0},
       {"last_report", 4},
       {"metrics", {{"loss", 0.125}}},
       {"workers",
        {{{"rank", 0}, {"node", "local"}, {"pid", 77}, {"stage", "training"}, {"step", 9}, {"phase", "backward"}},
         {{"rank", nullptr}, {"node", "local"}, {"pid", 78}, {"stage", "starting"}}}}},
      run);
  const std::string text = to_text(run);
  EXPECT_THAT(text, HasSubstr("mnist: running\n"));
  EXPECT_THAT(text, HasSubstr("rank 0       training, process 77 on local, step 9 (backward)\n"));
  EXPECT_THAT(text, HasSubstr("rank ?       starting, process 78 on local\n"));
  EXPECT_THAT(text, HasSubstr("report 4     loss 0.125\n"));
}

TEST(RunSummary, SaysWhyALiveRunDoesNotAnswer) {
  const RunSummary run{.name = "mnist", .state = "running", .remark = "the run did not answer within 5 s"};
  EXPECT_THAT(to_text(run),
              AllOf(HasSubstr("mnist: running; the run did not answer within 5 s\n"), Not(HasSubstr("gone"))));
}

TEST(RunSummary, SaysWhatAFolderLacks) {
  const TemporaryFolder folder;
  EXPECT_THAT(read_run(folder.path()).status().message(), AllOf(HasSubstr(folder.path()), HasSubstr("holds no run")));
  EXPECT_TRUE(read_run(folder / "missing").status().IsIOError());
}

}  // namespace
}  // namespace paceline::cli
