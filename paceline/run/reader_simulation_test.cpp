// Runs that go wrong at random (policy/simulator.h): what a reader tells of their journals is what decide() has made of
// them, after each event.
#include <gmock/gmock.h>

#include <fstream>
#include <set>

#include "paceline/policy/simulator.h"
#include "paceline/run/journal.h"
#include "paceline/run/reader.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::run {

using namespace policy;
namespace {

using ::testing::IsEmpty;

// `finished`: those that have; the reader tells it of them also when their group is closed and they are gone.
void expect_workers(const track::RunRecord& record, const RunState& state, std::set<int64_t>& finished) {
  for (const auto& [id, worker] : state.workers) {
    if (worker.stage == WorkerStage::finished) finished.insert(id.value);
    const WorkerStage stage = finished.contains(id.value) ? WorkerStage::finished : worker.stage;
    const track::WorkerRecord expected{.worker = id.value,
                                       .attempt = state.attempt.value,
                                       .rank = worker.rank,
                                       .node = state.nodes[static_cast<size_t>(worker.node)].name,
                                       .pid = worker.pid,
                                       .stage = Json(stage).get<std::string>()};
    ASSERT_TRUE(record.workers.contains(id.value)) << id;
    EXPECT_EQ(record.workers.at(id.value), expected) << Json(record.workers.at(id.value)) << Json(expected);
  }
}

void expect_told(const track::RunRecord& record, const RunState& state, std::set<int64_t>& finished) {
  EXPECT_EQ(record.run.state, to_string(state.state));
  EXPECT_EQ(record.run.since, state.since);
  EXPECT_EQ(record.run.attempt, state.attempt.value);
  EXPECT_EQ(record.run.world_size, state.world_size);
  EXPECT_EQ(record.run.error, state.error);
  EXPECT_EQ(record.end.stop_cause, state.stop_cause);
  EXPECT_EQ(record.end.stop_reason, state.stop_reason);
  EXPECT_EQ(record.end.failure_kind, state.failure_kind);
  EXPECT_EQ(record.end.worker_errors, state.worker_errors);
  EXPECT_EQ(record.end.return_value, state.return_value);
  EXPECT_EQ(record.checkpoint_config, state.options.checkpoint_config);
  EXPECT_EQ(Json(record.checkpoints), Json(state.checkpoints));
  expect_workers(record, state, finished);
}

// The journal as version 0.1 would have written it.
void forget_consequences(const std::string& folder) {
  std::ifstream file(journal_path(folder));
  std::string text;
  for (std::string line; std::getline(file, line);) {
    Json json = Json::parse(line);
    json.erase("format");
    json.erase("then");
    text += encode_json(json) + "\n";
  }
  file.close();
  std::filesystem::remove(journal_path(folder));  // a new file for those who follow the old one
  testing::write_file(journal_path(folder), text);
}

TEST(ReaderSimulation, WhatIsToldIsWhatWasDecided) {
  std::map<std::string, int> ends;
  int failed = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const testing::TemporaryFolder folder;
    std::mt19937_64 random(seed);
    const RunOptions options = random_options(random);
    Simulator simulator(seed, options, random_faults(random), /*fold=*/true);
    if (seed % 3 == 0) simulator.take_over_after(1 + static_cast<int64_t>(random() % 80));
    Journal journal = Journal::open(folder.path()).ValueOrDie();
    RunReader reader(folder.path());
    std::set<int64_t> finished;
    simulator.watch([&](const Event& event, const RunState& state, const Actions& actions, Time now) {
      ASSERT_TRUE(journal.append(event, state, actions, now).ok());
      ASSERT_TRUE(reader.read().ValueOrDie());
      expect_told(reader.record(), state, finished);
    });
    simulator.play();
    ASSERT_THAT(simulator.violations(), IsEmpty());
    ASSERT_FALSE(HasFailure());
    track::RunRecord record = reader.record();
    ++ends[record.run.state];
    for (const auto& attempt : record.attempts) failed += attempt.failure.empty() ? 0 : 1;

    forget_consequences(folder.path());
    const track::RunRecord decided = read_run_folder(folder.path()).ValueOrDie();
    record.run.journal_bytes = decided.run.journal_bytes;
    EXPECT_EQ(record, decided);
  }
  for (const char* end : {"finished", "errored", "aborted"}) EXPECT_GT(ends[end], 10) << end;
  EXPECT_GT(failed, 100);
}

}  // namespace
}  // namespace paceline::run
