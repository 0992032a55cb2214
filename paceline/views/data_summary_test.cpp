// What is told of datasets: rates of the last seconds or of all the time, who waits, and the bottleneck.
#include "paceline/views/data_summary.h"

#include <gmock/gmock.h>

#include "paceline/core/run_layout.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/track/sample_files.h"

namespace paceline::views {
namespace {

using ::testing::HasSubstr;

class DataSummary : public ::testing::Test {
 protected:
  DataSummary() {
    record_.run = {.path = folder_.path(), .state = "running"};
    record_.attempts = {{.attempt = 1, .start = 1000}};
  }
  // A data process that reads for so many seconds, up to `end`: its second operator takes the most time.
  void read(int64_t process, double end, int seconds, double waited_s) const {
    DataFigures before, now{.host = "here", .pid = 7};
    now.datasets = {
        {.name = "train", .steps = {{.name = "ReadParquet"}, {.name = "Map(decode)"}}, .ranks = {{.rank = 0}}}};
    track::SampleFiles samples(folder_ / run_layout::data_samples({process}), "data", std::to_string(process));
    for (int second = 0; second <= seconds; ++second) {
      now.time = end - seconds + second;
      DatasetFigures& dataset = now.datasets[0];
      for (OperatorFigures& step : dataset.steps) step.rows_task_outputs_generated = 100 * second;
      dataset.steps[0].block_generation_time = 0.5 * second;
      dataset.steps[1].block_generation_time = 1.5 * second;
      dataset.ranks[0].open_s = second;
      dataset.ranks[0].waited_s = waited_s * second;
      samples.add(track::columns_of(now, before));
      before = now;
    }
    testing::write_file(folder_ / run_layout::data_figures({process}), Json(now).dump());
  }
  DatasetSummary summary(bool is_live, double now) const {
    const auto all = dataset_summaries(record_, is_live, now);
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? DatasetSummary{} : all[0];
  }

  testing::TemporaryFolder folder_;
  track::RunRecord record_;
};

TEST_F(DataSummary, OfALiveRunIsOfTheLastSeconds) {
  read(3, 1100, 60, 0.3);
  const DatasetSummary live = summary(true, 1100.5);
  EXPECT_EQ(live.process, 3);
  EXPECT_EQ(live.state, "running");
  EXPECT_NEAR(live.waited_share, 0.3, 1e-6);
  EXPECT_EQ(live.bottleneck, "Map(decode)");
  EXPECT_THAT(live.verdict, HasSubstr("bottleneck: Map(decode), which takes 75 % of its operators' time"));
  EXPECT_THAT(live.verdict, HasSubstr("ranks waited 30 % of the last 10 s for it, 30 % of the time so far"));
  EXPECT_NEAR(live.operators[1].rows_per_s.value(), 100, 1e-6);
  EXPECT_NEAR(live.operators[1].busy_threads.value(), 1.5, 1e-6);
  EXPECT_EQ(live.operators[1].state, "running");
  EXPECT_EQ(summary(true, 1200).state, "idle") << "nothing was sampled any more";
}

TEST_F(DataSummary, WhatWasSlowBeforeIsNotSaidToBeNoLimitAtAll) {
  read(3, 1100, 60, 0.3);
  track::SampleFiles samples(folder_ / run_layout::data_samples({3}), "data", "3");
  for (int second = 1101; second <= 1115; ++second) {
    samples.add({.time = static_cast<double>(second), .values = {{"train/waiting_ranks", 0}}});
  }
  const DatasetSummary live = summary(true, 1115.5);
  EXPECT_EQ(live.bottleneck, "");
  EXPECT_EQ(live.verdict,
            "data is not the limit now: ranks waited 0.0 % of the last 10 s for it, 30 % of the time so far");
}

TEST_F(DataSummary, OfSecondsThatNobodyHasSampledNothingIsSaid) {
  read(3, 1100, 60, 0.3);
  const DatasetSummary silent = summary(true, 1112);
  EXPECT_EQ(silent.bottleneck, "Map(decode)");
  EXPECT_EQ(silent.verdict,
            "bottleneck: Map(decode), which takes 75 % of its operators' time; ranks waited 30 % of the time for it");
}

TEST_F(DataSummary, OfARunThatIsOverIsOfAllItsTime) {
  read(3, 1100, 60, 0.01);
  record_.run.state = "finished";
  const DatasetSummary over = summary(false, 5000);
  EXPECT_EQ(over.state, "ended");
  EXPECT_EQ(over.operators[0].state, "ended");
  EXPECT_NEAR(over.operators[0].rows_per_s.value(), 100, 5);
  EXPECT_EQ(over.bottleneck, "");
  EXPECT_THAT(over.verdict, HasSubstr("data is not the limit: ranks waited 1.0 % of the time"));
}

TEST_F(DataSummary, WhatEarlierAttemptsHaveReadIsLeftOut) {
  read(3, 1100, 10, 0.3);
  record_.attempts.push_back({.attempt = 2, .start = 1105});
  EXPECT_EQ(summary(false, 1200).process, 3) << "but where there is nothing else";
  read(8, 1150, 10, 0.3);
  EXPECT_EQ(summary(false, 1200).process, 8);
  record_.run.path = folder_ / "nowhere";
  EXPECT_TRUE(dataset_summaries(record_, false, 1200).empty());
}

TEST_F(DataSummary, AnOperatorThatHangsOrIsHeldUpIsTold) {
  DataFigures now{.host = "here", .time = 1100};
  now.datasets = {{.name = "train",
                   .steps = {{.name = "Read", .num_tasks_running = 1, .task_running_time_max = 60}, {.name = "Map"}}}};
  testing::write_file(folder_ / run_layout::data_figures({1}), Json(now).dump());
  const DatasetSummary stuck = summary(true, 1100);
  EXPECT_EQ(stuck.operators[0].state, "stuck");
  EXPECT_EQ(stuck.operators[1].state, "idle");
  EXPECT_EQ(stuck.operators[1].rows_per_s, std::nullopt);
  EXPECT_EQ(stuck.verdict, "nobody has read it yet");
  now.datasets[0].ranks = {{.rank = 0}};  // which waits for its first block
  testing::write_file(folder_ / run_layout::data_figures({1}), Json(now).dump());
  EXPECT_EQ(summary(true, 1100).verdict, "no rank has said yet how long it waits");
  track::SampleFiles samples(folder_ / run_layout::data_samples({1}), "data", "1");
  samples.add({.time = 1100, .values = {{"train/backpressure_threads", 0.5}, {"train/1 Map/rows_per_s", 0}}});
  EXPECT_EQ(summary(true, 1100.5).operators[1].state, "blocked");
  EXPECT_EQ(summary(true, 1100.5).operators[0].busy_threads, 1) << "with a block that is not there yet";
}

}  // namespace
}  // namespace paceline::views
