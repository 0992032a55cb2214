#include "paceline/views/node_samples.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "paceline/core/clock.h"
#include "paceline/core/run_layout.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::views {
namespace {

using track::SampleFiles;

class NodeSamples : public ::testing::Test {
 protected:
  std::string prefix(const std::string& node = "here") const { return folder_ / run_layout::node_samples(node); }
  SampleCurves curves(const std::vector<std::string>& names, const SampleRange& range = {}) const {
    return sample_curves(folder_.path(), {"node", "here"}, names, range).ValueOrDie();
  }
  testing::TemporaryFolder folder_;
};

TEST_F(NodeSamples, NowAndTheRanksThere) {
  NodeSample sample{.time = 1000, .cpu_ratio = 0.5, .no_gpus_because = "no driver"};
  sample.gpus.push_back({.uuid = "GPU-b", .index = 1, .name = "H100", .memory_used_bytes = 5});
  sample.gpus.push_back({.uuid = "GPU-c", .index = 0, .name = "H100"});
  sample.processes.push_back({.worker = 12, .role = "worker", .pid = 3, .cpu_cores = 1.5});
  sample.processes.push_back({.worker = 0, .role = "driver", .pid = 2, .rss_bytes = 9});
  SampleFiles(prefix(), "node", "here").add(track::columns_of(sample));
  SampleFiles(folder_ / run_layout::data_samples({3}), "data", "3").add({.time = 1000, .values = {{"train/rows", 1}}});

  track::RunRecord record;
  record.run = {.path = folder_.path(), .state = "running", .attempt = 2};
  record.workers = {{11, {.worker = 11, .attempt = 1, .rank = 0, .node = "here"}},
                    {12, {.worker = 12, .attempt = 2, .rank = 0, .node = "here"}},
                    {13, {.worker = 13, .attempt = 2, .rank = 1, .node = "there"}}};
  const auto nodes = node_summaries(record, 1001);
  ASSERT_EQ(nodes.size(), 1u);
  EXPECT_EQ(nodes[0].name, "here");
  EXPECT_EQ(nodes[0].state, "live");
  EXPECT_EQ(nodes[0].ranks, (RanksById{{"12", 0}}));
  std::ranges::sort(sample.gpus, {}, &GpuSample::index);
  std::ranges::sort(sample.processes, {}, &ProcessSample::worker);
  EXPECT_EQ(Json(nodes[0].sample), Json(sample));
  EXPECT_EQ(node_summaries(record, 1100)[0].state, "silent");
  record.run.state = "finished";
  EXPECT_EQ(node_summaries(record, 1100)[0].state, "ended");
  EXPECT_EQ(sampled_sources(folder_.path()), (std::vector<SampledSource>{{"data", "3"}, {"node", "here"}}));
}

// The driver's clock goes on as it began.
TEST_F(NodeSamples, AClockThatWasSetMakesNoNodeSilent) {
  SampleFiles(prefix(), "node", "here").add(track::columns_of(NodeSample{.time = 1000, .cpu_ratio = 0.5}));
  track::RunRecord record;
  record.run = {.path = folder_.path(), .state = "running"};
  const double written = to_seconds(SystemClock().now());
  EXPECT_EQ(node_summaries(record, written + 1)[0].state, "live") << "it was set forward";
  EXPECT_EQ(node_summaries(record, written + 100)[0].state, "silent");
  EXPECT_EQ(node_summaries(record, 900)[0].state, "silent") << "it was set back, and then nothing came";
}

TEST_F(NodeSamples, CurvesOfChosenNames) {
  SampleFiles files(prefix(), "node", "here");
  for (int second = 0; second < 100; ++second) {
    files.add({.time = 1000.0 + second, .values = {{"load_1m", second}, {"process/7/threads", 3}, {"sent_total", 1}}});
  }
  const SampleCurves all = curves({});
  EXPECT_EQ(all.first, 1000);
  EXPECT_EQ(all.last, 1099);
  EXPECT_EQ(all.seconds, 1);
  EXPECT_EQ(all.time.size(), 100u);
  EXPECT_EQ(all.names, (std::vector<std::string>{"load_1m", "process/7/threads"}));
  EXPECT_EQ(all.curves.size(), 2u);
  EXPECT_EQ(all.curves.at("load_1m").mean[42], 42);
  EXPECT_EQ(curves({"process/7/"}).curves.size(), 1u);
  EXPECT_EQ(curves({"process/*/threads"}).curves.size(), 1u);
  EXPECT_TRUE(curves({"*/threads", "process/*threads", "proc*/threads/7"}).curves.empty());

  const SampleCurves coarse = curves({"load_1m"}, {.points = 10});
  EXPECT_EQ(coarse.seconds, 10);
  const SampleCurve& load = coarse.curves.at("load_1m");
  EXPECT_EQ(load.max.back(), 99);
  EXPECT_EQ(*std::ranges::min_element(load.min), 0);
  const SampleCurves part = curves({"load_1m"}, {.from = 1010, .to = 1020});
  EXPECT_EQ(part.time.front(), 1010);
  EXPECT_EQ(part.time.size(), 10u);
  EXPECT_TRUE(curves({"load_1m"}, {.from = 2000}).time.empty());
  EXPECT_TRUE(curves({"load_1m"}, {.from = 1050, .to = 1040}).time.empty());
}

// A long run: the finest resolution has its end only.
TEST_F(NodeSamples, TheWholeHistoryHasNoHoles) {
  SampleFiles files(prefix(), "node", "here");
  track::Sample sample;
  for (int i = 0; i < 80; ++i) sample.values.emplace_back("process/" + std::to_string(i) + "/rss_bytes", 0);
  constexpr int kSeconds = 12'000;
  for (int second = 1; second <= kSeconds; ++second) {
    sample.time = second;
    for (auto& [name, value] : sample.values) value = second + 0.5;
    files.add(sample);
  }
  const SampleCurves all = curves({"process/5/rss_bytes"}, {.points = 200});
  EXPECT_EQ(all.first, 1);
  EXPECT_EQ(all.last, kSeconds);
  EXPECT_GE(all.time.size(), 195u);
  const std::vector<double>& mean = all.curves.at("process/5/rss_bytes").mean;
  EXPECT_TRUE(std::ranges::is_sorted(mean));
  EXPECT_NEAR(mean[100], 100 * all.seconds + all.seconds / 2, all.seconds);
  // Zoomed in, the end is there second by second, the beginning in what is left of it.
  EXPECT_EQ(curves({"process/5/rss_bytes"}, {.from = kSeconds - 100.0}).time.size(), 101u);
  EXPECT_GE(curves({"process/5/rss_bytes"}, {.from = 0, .to = 600}).time.size(), 9u);
}

TEST_F(NodeSamples, DamagedFilesCostTheirLines) {
  {
    SampleFiles files(prefix(), "node", "here");
    for (int second = 0; second < 5; ++second) files.add({.time = 10.0 + second, .values = {{"load_1m", second}}});
  }
  std::ofstream(track::samples_path(prefix(), track::kSampleTiers[0]), std::ios::app) << "[15,nonsense]\n{\n[16,";
  EXPECT_EQ(curves({}).time.size(), 5u);
  std::ofstream(folder_ / "samples/node_odd.1s.jsonl") << "nonsense";
  EXPECT_EQ(sampled_sources(folder_.path()).size(), 1u);
  EXPECT_TRUE(sample_curves(folder_.path(), {"node", "odd"}, {}, {}).status().IsKeyError());
  EXPECT_TRUE(sampled_sources(folder_ / "nowhere").empty());
}

}  // namespace
}  // namespace paceline::views
