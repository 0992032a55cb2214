#include "paceline/cli/commands/run_text.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "paceline/core/clock.h"
#include "paceline/run/hang_evidence.h"
#include "paceline/run/reader.h"
#include "paceline/run/recorded_run_fixture.h"
#include "paceline/run/time_spent.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/track/metrics_history.h"

namespace paceline::cli {

using namespace views;
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryFolder;

TEST(RunSummary, TellsAttemptsCheckpointsAndMetricsFromTheFolderAlone) {
  const TemporaryFolder folder;
  run::RecordedRun recorder(folder.path());
  recorder.train();
  auto history = track::HistoryWriter::open(folder.path()).ValueOrDie();
  for (const int64_t rank : {0, 1}) {
    ASSERT_TRUE(
        history.append({.report = 7, .rank = rank, .metrics = {{"loss", 0.5 + static_cast<double>(rank)}}}).ok());
  }
  ASSERT_TRUE(history.flush().ok());

  const RunSummary run = summary_of(run::read_run_folder(folder.path()).ValueOrDie());
  EXPECT_EQ(run.name, "mnist");
  EXPECT_EQ(run.state, "running");
  ASSERT_EQ(run.attempts.size(), 2u);
  EXPECT_THAT(run.attempts[0].failure, HasSubstr("no such digit"));
  EXPECT_EQ(run.attempts[1].failure, "");
  EXPECT_EQ(run.attempts[1].world_size, 1);
  EXPECT_LE(run.attempts[0].end.value(), run.attempts[1].start);
  EXPECT_EQ(run.attempts[1].end, std::nullopt) << "it goes on";
  ASSERT_EQ(run.checkpoints.size(), 1u);
  EXPECT_EQ(run.report, 7);
  EXPECT_EQ(run.metrics, Json({{"loss", 0.5}}));
  EXPECT_EQ(Json(run).get<RunSummary>(), run);

  const std::string text = to_text(run);
  EXPECT_THAT(text, HasSubstr("mnist: running\n"));
  EXPECT_THAT(text, HasSubstr("rank 0       training, process 102 on local\n"));
  EXPECT_THAT(text, HasSubstr("attempt 1    1 worker, 2027-01-15T"));
  EXPECT_THAT(text, HasSubstr("no such digit"));
  EXPECT_THAT(text, HasSubstr("checkpoint_000001  loss 0.25\n"));
  EXPECT_THAT(text, HasSubstr("report 7     loss 0.5\n"));
}

TEST(RunSummary, TellsThatItHung) {
  const TemporaryFolder folder;
  run::RecordedRun(folder.path()).train();
  const auto text = [&] { return to_text(summary_of(run::read_run_folder(folder.path()).ValueOrDie())); };
  EXPECT_THAT(text(), Not(HasSubstr("hung")));
  for (const char* name : {"2027-01-15T10:00:00Z", "2027-01-15T11:00:00Z"}) {
    ASSERT_TRUE(run::keep_hang(folder.path(), {.hang = {.name = name}}).ok());
  }
  EXPECT_THAT(text(),
              HasSubstr("hung         2 times, last 2027-01-15T11:00:00Z: hang/2027-01-15T11:00:00Z/report.txt"));
}

TEST(RunSummary, TellsHowLongRanksWaitForData) {
  const TemporaryFolder folder;
  run::RecordedRun recorder(folder.path());
  recorder.train();
  const DatasetFigures train{
      .name = "train",
      .steps = {{.name = "ReadParquet", .rows_task_outputs_generated = 1000, .block_generation_time = 0.5},
                {.name = "Filter", .block_generation_time = 1e-9}},
      .ranks = {{.rank = 0, .rows = 400, .bytes = 4096, .waited_s = 1, .open_s = 10},
                {.rank = 1, .rows = 400, .bytes = 4096, .waited_s = 3, .open_s = 10}}};
  std::filesystem::create_directory(folder / "data");
  std::ofstream(folder / "data/process_1.json") << Json(DataFigures{.time = 1}).dump();
  std::ofstream(folder / "data/process_9.json") << Json(DataFigures{.time = 2, .datasets = {train}}).dump();
  std::ofstream(folder / "data/process_10.json") << "half a";
  const RunSummary run = summary_of(run::read_run_folder(folder.path()).ValueOrDie());
  EXPECT_EQ(Json(run).get<RunSummary>(), run);
  EXPECT_THAT(to_text(run), HasSubstr("  dataset      train: 800 rows, 8.0 KiB; ranks waited 20 % of the time for it, "
                                      "rank 1 most (30 %); slowest step: ReadParquet, 2000 rows/s in one thread\n"));
}

TEST(RunSummary, TellsWhatBecameOfAValidation) {
  const TemporaryFolder folder;
  run::RecordedRun recorder(folder.path());
  recorder.train();
  const auto text = [&] { return to_text(summary_of(run::read_run_folder(folder.path()).ValueOrDie())); };
  EXPECT_THAT(text(), HasSubstr("checkpoint_000001  loss 0.25\n"));
  recorder.add(policy::CheckpointReady{.report = 2, .validation = ValidationTaskConfig{}});
  recorder.add(policy::CheckpointPublished{.checkpoint = {.report = 2, .metrics = {{"loss", 0.5}}}});
  EXPECT_THAT(text(), HasSubstr("checkpoint_000002  loss 0.5  (validation pending)\n"));
  recorder.add(policy::ValidationEnded{2, recorder.state().validations.at(0).worker, {{"accuracy", 0.75}}, ""});
  EXPECT_THAT(text(), HasSubstr("checkpoint_000002  accuracy 0.75, loss 0.5  (validated)\n"));
}

TEST(RunSummary, AFinishedRunIsFinished) {
  const TemporaryFolder folder;
  run::RecordedRun recorder(folder.path());
  recorder.train();
  recorder.add(policy::WorkerFinished{.worker = recorder.worker(), .reports = 1});
  recorder.add(policy::WorkerExited{.worker = recorder.worker(), .last_report = 1});
  const RunSummary run = summary_of(run::read_run_folder(folder.path()).ValueOrDie());
  EXPECT_THAT(to_text(run), HasSubstr("mnist: finished\n"));
}

TEST(RunSummary, ALiveRunTellsWhereItsWorkersAre) {
  RunSummary run{.name = "mnist", .path = "/runs/mnist", .state = "scheduling", .report = 3};
  add_live_status({{"state", "running"},
                   {"since", 5.0},
                   {"last_report", 4},
                   {"metrics", {{"loss", 0.125}}},
                   {"workers",
                    {{{"rank", 0},
                      {"node", "local"},
                      {"pid", 77},
                      {"stage", "training"},
                      {"step", 9},
                      {"phase", "backward"},
                      {"started", 1.0},
                      {"cpu_s", 2.0},
                      {"resident_bytes", 3 << 20}},
                     {{"rank", 1}, {"stage", "training"}, {"pid", 79}, {"step", 0}, {"phase", "report"}},
                     {{"rank", nullptr}, {"node", "local"}, {"pid", 78}, {"stage", "starting"}}}}},
                  run);
  const std::string text = to_text(run);
  EXPECT_THAT(text, HasSubstr("mnist: running\n"));
  EXPECT_THAT(text, HasSubstr("rank 0       training, process 77 on local, step 9 (backward), cpu 0 %, 3.0 MiB\n"));
  EXPECT_THAT(text, HasSubstr("rank 1       training, process 79 on , phase report\n")) << "it has no steps";
  EXPECT_THAT(text, HasSubstr("rank ?       starting, process 78 on local\n"));
  EXPECT_THAT(text, HasSubstr("report 4     loss 0.125\n"));
}

TEST(RunSummary, TellsWhatTheTimeOfAllRanksWentInto) {
  const TemporaryFolder folder;
  run::RecordedRun recorder(folder.path());
  recorder.train();
  ASSERT_TRUE(
      run::keep_time_spent(folder.path(), {{.attempt = 1, .workers = 1, .spent = {.compute_s = 30, .starting_s = 10}},
                                           {.attempt = 2, .workers = 1, .spent = {.starting_s = 5, .other_s = 0.1}}})
          .ok());
  RunSummary run = summary_of(run::read_run_folder(folder.path()).ValueOrDie());
  run.goodput.restart_s = 5;  // the attempts of the recording follow each other in hours
  EXPECT_THAT(to_text(run), HasSubstr("  time         67 % computing, 22 % starting, 11 % restarting\n"));
  add_live_status({{"workers", {{{"rank", 0}, {"spent", {{"compute_s", 10.0}, {"data_s", 49.9}}}}}}}, run);
  EXPECT_THAT(to_text(run), HasSubstr("  time         48 % data, 38 % computing, 10 % starting, 5 % restarting\n"));
  EXPECT_NEAR(run.goodput.share, 0.38, 0.01);
  EXPECT_THAT(to_text(RunSummary{}), Not(HasSubstr("  time ")));
}

TEST(RunSummary, TheAttemptOfALiveRunHasLastedUntilNow) {
  const double start = to_seconds(SystemClock().now()) - 7199;
  RunSummary run{.name = "mnist", .attempts = {{.attempt = 1, .world_size = 2, .start = start}}};
  EXPECT_THAT(to_text(run), Not(HasSubstr("so far"))) << "nobody knows whether it goes on";
  EXPECT_EQ(Json(run).at("attempts").at(0).at("end"), nullptr);
  run.live = true;
  EXPECT_THAT(to_text(run), ::testing::ContainsRegex(", (1:59:59|2:00:[0-9]+) so far\n"));
  run.attempts[0].end = start + 61;
  EXPECT_THAT(to_text(run), HasSubstr(", 1:01\n"));
}

TEST(RunSummary, TheWorkersOfADeadDriverAreGone) {
  const TemporaryFolder folder;
  run::RecordedRun recorder(folder.path());
  recorder.train();
  RunSummary run = summary_of(run::read_run_folder(folder.path()).ValueOrDie());
  note_dead_driver(run);
  EXPECT_THAT(to_text(run),
              HasSubstr("rank 0       gone with the driver (last known: training), process 102 on local\n"));
  EXPECT_EQ(run.workers[0].at("stage"), "gone");
}

TEST(RunSummary, SaysWhyALiveRunDoesNotAnswer) {
  const RunSummary run{.name = "mnist", .state = "running", .remark = "the run did not answer within 5 s"};
  EXPECT_THAT(to_text(run),
              AllOf(HasSubstr("mnist: running; the run did not answer within 5 s\n"), Not(HasSubstr("gone"))));
}

TEST(RunSummary, SaysWhatAFolderLacks) {
  const TemporaryFolder folder;
  EXPECT_THAT(run::read_run_folder(folder.path()).status().message(),
              AllOf(HasSubstr(folder.path()), HasSubstr("holds no run")));
  EXPECT_TRUE(run::read_run_folder(folder / "missing").status().IsIOError());
}

}  // namespace
}  // namespace paceline::cli
