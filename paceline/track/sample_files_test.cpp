#include "paceline/track/sample_files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "paceline/core/run_layout.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/track/samples_thread.h"

namespace paceline::track {
namespace {

struct ReadLines {
  std::vector<SamplesHeader> headers;
  std::vector<SamplesRow> rows;
};

ReadLines read(const std::string& path) {
  ReadLines all;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (auto header = decode_samples_header(line)) {
      all.headers.push_back(*header);
      continue;
    }
    SamplesRow row;
    EXPECT_FALSE(all.headers.empty());
    EXPECT_TRUE(decode_samples_row(line, all.headers.back().columns.size(), row)) << line;
    all.rows.push_back(row);
  }
  return all;
}

TEST(SampleLines, RowsComeBack) {
  const std::vector<std::string> columns = {"cpu_ratio", "sent_bytes_total", "load_1m", "free_bytes", "cores"};
  const SamplesRow row{.time = 1'790'000'000.25,
                       .values = {{0.25, 0.125, 0.5},
                                  {1'234'567'890'123, 1, 2},  // a total: the last counts
                                  {},
                                  {98'765'432'100, 98'765'432'100, 98'765'432'100},
                                  {8, 8, 8}}};
  const std::string text = encode_samples_row(row, columns);
  EXPECT_EQ(text, "[1790000000.25,[0.25,0.125,0.5],1234567890123,null,9.87654e+10,8]\n");
  SamplesRow decoded;
  ASSERT_TRUE(decode_samples_row(text.substr(0, text.size() - 1), columns.size(), decoded));
  EXPECT_EQ(decoded.time, row.time);
  EXPECT_EQ(decoded.values[0].max, 0.5);
  EXPECT_EQ(decoded.values[1].mean, 1'234'567'890'123);
  EXPECT_TRUE(std::isnan(decoded.values[2].mean));
}

TEST(SampleLines, WhatIsCutOffOrDamagedIsNoLine) {
  const std::string line = "[17,[0.25,0.125,0.5],null,3]";
  SamplesRow row;
  ASSERT_TRUE(decode_samples_row(line, 3, row));
  for (size_t size = 0; size < line.size(); ++size) EXPECT_FALSE(decode_samples_row(line.substr(0, size), 3, row));
  EXPECT_FALSE(decode_samples_row(line, 2, row));
  EXPECT_FALSE(decode_samples_row(line, 4, row));
  for (const char* odd :
       {"", "[]", "[null,1]", "[1,nan]", "[1,inf]", "[1,1e999]", "[1e300,1]", "[-5,1]", "[1,[1,2]]", "{}", "[1,2]]"}) {
    EXPECT_FALSE(decode_samples_row(odd, 1, row)) << odd;
  }
  const std::string header = encode_samples_header({.source = "node", .name = "a", .columns = {"cpu_ratio"}});
  EXPECT_EQ(decode_samples_header(header)->name, "a");
  EXPECT_FALSE(decode_samples_header(header.substr(0, header.size() / 2)));
  EXPECT_FALSE(decode_samples_header(R"({"version":2,"columns":[]})"));
  EXPECT_FALSE(decode_samples_header(R"({"version":1,"columns":7})"));
}

TEST(SampleFiles, CoarserFilesHaveLeastAndGreatest) {
  const testing::TemporaryFolder folder;
  const std::string prefix = folder / "samples/node_a";
  SampleFiles files(prefix, "node", "a");
  for (int second = 0; second < 25; ++second) {
    files.add({.time = 1000.0 + second, .values = {{"load", second}, {"sent_total", 100.0 * second}}});
  }
  EXPECT_EQ(read(samples_path(prefix, kSampleTiers[0])).rows.size(), 25u);
  const ReadLines tens = read(samples_path(prefix, kSampleTiers[1]));
  ASSERT_EQ(tens.headers.size(), 1u);
  EXPECT_EQ(tens.headers[0].seconds, 10);
  EXPECT_EQ(tens.headers[0].columns, (std::vector<std::string>{"load", "sent_total"}));
  ASSERT_EQ(tens.rows.size(), 2u);  // the third bucket is not full
  EXPECT_EQ(tens.rows[1].time, 1010);
  EXPECT_EQ(tens.rows[1].values[0].mean, 14.5);
  EXPECT_EQ(tens.rows[1].values[0].min, 10);
  EXPECT_EQ(tens.rows[1].values[0].max, 19);
  EXPECT_EQ(tens.rows[1].values[1].mean, 1900);
  files.finish();
  EXPECT_EQ(read(samples_path(prefix, kSampleTiers[1])).rows.size(), 3u);
}

TEST(SampleFiles, GoOnWhenTheClockIsSetBack) {
  const testing::TemporaryFolder folder;
  const std::string prefix = folder / "samples/node_a";
  SampleFiles files(prefix, "node", "a");
  for (const double time : {1000.0, 1001.0, 1000.5, 1001.0, 400.0, 401.0, 402.0}) {
    files.add({.time = time, .values = {{"load", time}}});
  }
  files.finish();
  std::vector<double> times;
  for (const SamplesRow& row : read(samples_path(prefix, kSampleTiers[0])).rows) times.push_back(row.time);
  EXPECT_EQ(times, (std::vector<double>{1000, 1001, 400, 401, 402}));
  const ReadLines tens = read(samples_path(prefix, kSampleTiers[1]));
  ASSERT_EQ(tens.rows.size(), 2u);
  EXPECT_EQ(tens.rows[0].values[0].mean, 1000.5);
  EXPECT_EQ(tens.rows[1].values[0].mean, 401);
}

TEST(SampleFiles, OtherColumnsHaveAHeaderOfTheirOwn) {
  const testing::TemporaryFolder folder;
  const std::string prefix = folder / "node_a";
  SampleFiles files(prefix, "node", "a");
  files.add({.time = 1, .values = {{"load", 1}}});
  files.add({.time = 2, .values = {{"load", 1}, {"process/7/threads", 3}}});
  files.add({.time = 3, .values = {{"load", 1}}});
  files.add({.time = 3, .values = {{"load", 2}}});  // not later: left out
  const ReadLines all = read(samples_path(prefix, kSampleTiers[0]));
  // What is missing again stays a column.
  ASSERT_EQ(all.headers.size(), 2u);
  ASSERT_EQ(all.rows.size(), 3u);
  EXPECT_EQ(all.headers[1].columns.size(), 2u);
  EXPECT_TRUE(std::isnan(all.rows[2].values[1].mean));
}

TEST(SampleFiles, NeverGrowBeyondTheirSize) {
  const testing::TemporaryFolder folder;
  const std::string prefix = folder / "node_a";
  SampleFiles files(prefix, "node", "a");
  Sample sample;
  for (int i = 0; i < 60; ++i) sample.values.emplace_back("process/" + std::to_string(i) + "/rss_bytes", 0);
  constexpr int kSamples = 20'000;
  for (int second = 1; second <= kSamples; ++second) {
    sample.time = second;
    for (auto& [name, value] : sample.values) value = second * 1e6 + 0.5;
    files.add(sample);
  }
  uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) bytes += entry.file_size();
  EXPECT_LT(bytes, 6u << 20);
  // Each file can be read by itself, and the last sample is there.
  const ReadLines before = read(samples_path(prefix, kSampleTiers[0], /*before=*/true));
  const ReadLines last = read(samples_path(prefix, kSampleTiers[0]));
  EXPECT_EQ(before.headers.size(), 1u);
  EXPECT_EQ(last.rows.back().time, kSamples);
  EXPECT_EQ(before.rows.back().time + 1, last.rows.front().time);
  // Of the whole time there are lines in some resolution.
  EXPECT_EQ(read(samples_path(prefix, kSampleTiers[3])).rows.front().time, 1);
}

TEST(SampleFiles, GoOnBehindALineThatWasCutOff) {
  const testing::TemporaryFolder folder;
  const std::string prefix = folder / "node_a";
  SampleFiles(prefix, "node", "a").add({.time = 1, .values = {{"load", 1}}});
  std::ofstream(samples_path(prefix, kSampleTiers[0]), std::ios::app) << "[2,";
  SampleFiles(prefix, "node", "a").add({.time = 3, .values = {{"load", 3}}});
  const ReadLines all = read(samples_path(prefix, kSampleTiers[0]));
  EXPECT_EQ(all.headers.size(), 2u);
  EXPECT_EQ(all.rows.size(), 2u);
}

TEST(SampleFiles, ColumnsOfANode) {
  NodeSample node{.time = 5, .cpu_ratio = 0.5, .no_gpus_because = "no driver"};
  node.gpus.push_back({.uuid = "GPU-a", .name = "H100", .utilization_ratio = 0.75});
  node.processes.push_back({.worker = 7, .role = "worker", .pid = 41, .state = "running", .cpu_cores = 1.5});
  node.processes.push_back({.worker = 8, .role = "worker", .pid = 42, .state = "running"});
  const Sample sample = columns_of(node);
  const std::vector<std::pair<std::string, double>> values = {
      {"cpu_ratio", 0.5},           {"gpu/GPU-a/utilization_ratio", 0.75},
      {"process/7/cpu_cores", 1.5}, {"processes/worker/blocked", 0},
      {"processes/worker/live", 2}, {"processes/worker/stopped", 0}};
  EXPECT_EQ(sample.values, values);
  EXPECT_EQ(sample.about["gpus"]["GPU-a"]["name"], "H100");
  EXPECT_EQ(sample.about["processes"]["8"], (Json{{"worker", 8}, {"role", "worker"}, {"pid", 42}}));
  EXPECT_EQ(sample.about["no_gpus_because"], "no driver");
}

TEST(SampleFiles, ColumnsOfADataProcess) {
  const auto figures = [](double time, int64_t rows) {
    return DataFigures{
        .time = time,
        .datasets = {{.name = "train",
                      .steps = {{.name = "Read", .rows_task_outputs_generated = rows, .num_tasks_running = 2}},
                      .read_ahead = {.num_external_outqueue_blocks = 3},
                      .ranks = {{.waited_s = time / 4}}}}};
  };
  const Sample first = columns_of(figures(10, 100), {});
  EXPECT_EQ(first.values.size(), 3u) << "there are no rates yet";
  const Sample sample = columns_of(figures(12, 500), figures(10, 100));
  const std::map<std::string, double> values(sample.values.begin(), sample.values.end());
  EXPECT_EQ(values.at("train/0 Read/tasks_running"), 2);
  EXPECT_EQ(values.at("train/0 Read/rows_per_s"), 200);
  EXPECT_EQ(values.at("train/queue_blocks"), 3);
  EXPECT_EQ(values.at("train/waiting_ranks"), 0.25);
}

TEST(SamplesThread, WritesByTheDriversClock) {
  const testing::TemporaryFolder folder;
  {
    SamplesThread thread(folder.path(), nullptr);
    const auto lines = [](double first) {
      std::string text;
      for (const double time : {first, first + 1}) text += Json{{"time", time}, {"load_1m", 2.0}}.dump() + "\n";
      return text + "nonsense\n";
    };
    thread.take("here", lines(1000), 1001.5);  // on its way for a while
    thread.take("far/away", lines(50), 1002);  // a wrong clock
    thread.take("here", lines(1002), 1003.1);
  }
  const auto tier = kSampleTiers[0];
  const ReadLines here = read(samples_path(folder / run_layout::node_samples("here"), tier));
  ASSERT_EQ(here.rows.size(), 4u);
  EXPECT_EQ(here.rows[0].time, 1000);
  EXPECT_EQ(here.rows[3].time, 1003);
  const ReadLines away = read(samples_path(folder / run_layout::node_samples("far/away"), tier));
  ASSERT_EQ(away.rows.size(), 2u);
  EXPECT_EQ(away.headers[0].name, "far/away");
  EXPECT_EQ(away.rows[1].time, 1002);
}

TEST(SamplesThread, WritesNothingWhereItMayNot) {
  const testing::TemporaryFolder folder;
  {
    SamplesThread thread(folder.path(), [] { return arrow::Status::IOError("another driver has it"); });
    thread.take("here", "{\"time\":1,\"load_1m\":2}\n", 1);
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "samples"));
}

}  // namespace
}  // namespace paceline::track
