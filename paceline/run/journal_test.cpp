#include "paceline/run/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "paceline/policy/decide.h"
#include "paceline/run/reader.h"
#include "paceline/storage/local/durable.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::run {

using namespace policy;
namespace {

using paceline::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

arrow::Status decide_and_append(Journal& journal, RunState& state, const Event& event, Time now) {
  const Actions actions = decide(state, event, now);
  return journal.append(event, state, actions, now);
}

// Events of a short run, each journaled and applied as the controller does it.
std::vector<Event> short_run() {
  const RunOptions options{.num_workers = 1, .max_failures = 1};
  return {
      RunOpened{.epoch = {1}, .name = "test", .options = options},
      NodeJoined{{.name = "a"}},
      WorkerJoined{.worker = {1}, .pid = 5},
      CheckpointReady{1},
      CheckpointPublished{{.report = 1, .metrics = {{"loss", 0.1 + 0.2}}, .time = 1.1}},
      WorkerExited{.worker = {1}, .end = {.status = {.signal = 9}, .last_lines = {"caf\xc3\xa9"}}, .last_report = 3},
      WorkerJoined{.worker = {2}, .pid = 6},
      WorkerFinished{.worker = {2}, .return_value = {{"a", 1}}},
      WorkerExited{.worker = {2}}};
}

TEST(Journal, FoldingGivesTheState) {
  TemporaryFolder folder;
  Journal journal = Journal::open(folder.path()).ValueOrDie();
  RunState state;
  Time now = from_seconds(1234.5);
  for (const Event& event : short_run()) {
    now = journal_time(now + Duration(123'456'789));
    ASSERT_TRUE(decide_and_append(journal, state, event, now).ok());
    EXPECT_EQ(replay(folder.path()).ValueOrDie(), state);
  }
  EXPECT_EQ(state.state, State::finished);
  EXPECT_TRUE(journal.sync().ok());
}

// As version 0.1 wrote it.
TEST(Journal, TheEndOfAProcessLiesFlatInItsEvent) {
  const WorkerExited exited{.worker = {2}, .end = {.status = {.signal = 9}, .step = 12, .phase = Phase::backward}};
  const Json json = encode_event(exited);
  EXPECT_EQ(json.at("status").at("signal"), 9);
  EXPECT_EQ(json.at("step"), 12);
  EXPECT_FALSE(json.contains("end"));
  EXPECT_EQ(std::get<WorkerExited>(decode_event(json).ValueOrDie()), exited);
}

TEST(Journal, TimesComeBackAsTheyWere) {
  for (int64_t i = 0; i < 1000; ++i) {
    const Time time = journal_time(Time{Duration{1'790'000'000'123'456'789 + i * 37}});
    EXPECT_EQ(journal_time(time), time);
  }
}

TEST(Journal, ATornLastLineIsNoEventAndIsRemoved) {
  TemporaryFolder folder;
  RunState state;
  {
    Journal journal = Journal::open(folder.path()).ValueOrDie();
    for (const Event& event : short_run()) {
      ASSERT_TRUE(decide_and_append(journal, state, event, from_seconds(1)).ok());
    }
  }
  std::ofstream(journal_path(folder.path()), std::ios::app) << R"({"event": "joined", "wor)";
  EXPECT_EQ(replay(folder.path()).ValueOrDie(), state);
  Journal journal = Journal::open(folder.path()).ValueOrDie();
  const Event next = RunOpened{.epoch = {2}};
  ASSERT_TRUE(decide_and_append(journal, state, next, from_seconds(2)).ok());
  EXPECT_EQ(replay(folder.path()).ValueOrDie(), state);
}

// A bad disk costs what stands behind the damage, not the run.
TEST(Journal, ADamagedLineEndsItAndIsSetAside) {
  TemporaryFolder folder;
  RunState before;
  const std::vector<Event> events = short_run();
  {
    Journal journal = Journal::open(folder.path()).ValueOrDie();
    for (size_t event = 0; event < 4; ++event) {
      ASSERT_TRUE(decide_and_append(journal, before, events[event], from_seconds(1)).ok());
    }
  }
  const std::string rest = "\xff\xfe damaged\n{\"event\": \"no such\", \"time\": 1}\n";
  std::ofstream(journal_path(folder.path()), std::ios::app) << rest;
  EXPECT_EQ(replay(folder.path()).ValueOrDie(), before);

  std::string note;
  Journal journal = Journal::open(folder.path(), [&](const std::string& text) { note = text; }).ValueOrDie();
  EXPECT_THAT(note, AllOf(HasSubstr("journal.jsonl is damaged in line 5"), HasSubstr("journal.jsonl.damaged")));
  EXPECT_EQ(storage::read_file(journal_path(folder.path()) + ".damaged").ValueOrDie(), rest);
  RunState after = before;
  ASSERT_TRUE(decide_and_append(journal, after, RunOpened{.epoch = {2}}, from_seconds(2)).ok());
  EXPECT_EQ(replay(folder.path()).ValueOrDie(), after);
}

TEST(Journal, AJournalThatIsDamagedFromTheStartIsNoState) {
  TemporaryFolder folder;
  std::ofstream(journal_path(folder.path())) << "{\"event\": \"no such\", \"time\": 1}\n{}\n";
  EXPECT_FALSE(replay(folder.path()).ValueOrDie());
}

// It was stopped while another took its run over, and has woken up.
TEST(Journal, WhatAnEarlierDriverWritesBehindItsSuccessorIsPassedOver) {
  TemporaryFolder folder;
  Journal earlier = Journal::open(folder.path()).ValueOrDie();
  RunState stale;
  ASSERT_TRUE(decide_and_append(earlier, stale, RunOpened{.epoch = {1}, .name = "run"}, from_seconds(1)).ok());
  RunState state = stale;
  Journal later = Journal::open(folder.path()).ValueOrDie();
  ASSERT_TRUE(decide_and_append(later, state, RunOpened{.epoch = {2}, .name = "run"}, from_seconds(2)).ok());
  const auto before = read_run_folder(folder.path()).ValueOrDie();
  ASSERT_TRUE(decide_and_append(earlier, stale, StopRequested{.reason = "woken"}, from_seconds(3)).ok());
  ASSERT_EQ(stale.state, State::aborted);
  EXPECT_EQ(replay(folder.path()).ValueOrDie(), state);
  const auto after = read_run_folder(folder.path()).ValueOrDie();
  EXPECT_EQ(after.run.state, "initializing");
  EXPECT_EQ(after.attempts, before.attempts);
  EXPECT_EQ(after.events, before.events);
  ASSERT_TRUE(decide_and_append(later, state, NodeJoined{{.name = "node"}}, from_seconds(4)).ok());
  EXPECT_EQ(replay(folder.path()).ValueOrDie(), state);
  EXPECT_EQ(read_run_folder(folder.path())->run.state, "scheduling");
}

TEST(Journal, NoJournalIsNoState) {
  TemporaryFolder folder;
  EXPECT_FALSE(replay(folder.path()).ValueOrDie());
  std::ofstream(journal_path(folder.path())) << "{\"event\": \"torn";
  EXPECT_FALSE(replay(folder.path()).ValueOrDie());
}

TEST(Journal, ALaterFormatIsNamedBeforeItsEventsAreRead) {
  const Json line = {{"event", "run_opened"}, {"format", kJournalFormat + 1}, {"epoch", "second"}, {"time", 1.0}};
  const arrow::Status status = decode_journal_entry(line).status();
  EXPECT_TRUE(status.IsNotImplemented()) << status;
  EXPECT_THAT(status.message(), HasSubstr("a later Paceline wrote it"));
}

}  // namespace
}  // namespace paceline::run
