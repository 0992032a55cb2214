// Run folders that version 0.1 wrote (fixtures/v0_1, each what a program of tests/robustness or a Python driver left)
// read as they read then. expected.json is what 0.1 told of the run, but for workers that had finished, which it told
// were gone; a reader that tells otherwise is wrong.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "paceline/core/json.h"
#include "paceline/run/reader.h"

namespace paceline::run {
namespace {

std::filesystem::path fixtures() {
  return std::filesystem::path(__FILE__).parent_path() / "fixtures" / "v0_1";
}

// All but what depends on where the fixture lies.
Json told(const track::RunRecord& record) {
  Json run = record.run;
  run.erase("path");
  Json json = {{"run", std::move(run)},
               {"attempts", record.attempts},
               {"checkpoints", record.checkpoints},
               {"events", record.events.size()},
               {"stop_cause", record.end.stop_cause},
               {"stop_reason", record.end.stop_reason},
               {"failure_kind", record.end.failure_kind},
               {"return_value", record.end.return_value}};
  json["workers"] = Json::array();
  for (const auto& [id, worker] : record.workers) json["workers"].push_back(worker);
  json["metrics"] = Json::object();
  for (const auto& [name, metric] : record.metrics) json["metrics"][name] = metric.last;
  json["worker_errors"] = Json::object();
  for (const auto& [rank, error] : record.end.worker_errors) json["worker_errors"][std::to_string(rank)] = error;
  return json;
}

class OldJournals : public ::testing::TestWithParam<std::string> {};

TEST_P(OldJournals, ReadAsTheyReadThen) {
  const std::filesystem::path folder = fixtures() / GetParam();
  const track::RunRecord record = read_run_folder(folder).ValueOrDie();
  std::ifstream file(folder / "expected.json");
  ASSERT_TRUE(file) << told(record).dump(1);
  EXPECT_EQ(told(record), Json::parse(file));
}

std::vector<std::string> runs() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(fixtures())) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Version01, OldJournals, ::testing::ValuesIn(runs()),
                         [](const auto& run) { return run.param; });

}  // namespace
}  // namespace paceline::run
