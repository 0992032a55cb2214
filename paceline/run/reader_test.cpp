#include "paceline/run/reader.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>

#include "paceline/run/recorded_run_fixture.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(RunReader, FollowsARunAsReadingItWholeDoes) {
  const testing::TemporaryFolder folder;
  RecordedRun run(folder.path());
  run.open("here", 77);
  RunReader reader(folder.path());
  EXPECT_TRUE(reader.read().ValueOrDie());
  EXPECT_EQ(reader.record().run.state, "initializing");
  EXPECT_EQ(reader.record().run.host, "here");
  EXPECT_EQ(reader.record().run.pid, 77);
  EXPECT_FALSE(reader.read().ValueOrDie()) << "nothing new";
  run.train();
  run.report(1, {{"loss", 0.25}});
  EXPECT_TRUE(reader.read().ValueOrDie());
  run.finish();
  EXPECT_TRUE(reader.read().ValueOrDie());
  EXPECT_EQ(reader.record(), read_run_folder(folder.path()).ValueOrDie());

  const track::RunRecord& record = reader.record();
  EXPECT_EQ(record.run.state, "finished");
  EXPECT_EQ(record.run.report, 1);
  ASSERT_EQ(record.attempts.size(), 2u);
  EXPECT_THAT(record.attempts[0].failure, HasSubstr("no such digit"));
  ASSERT_EQ(record.workers.size(), 2u) << "those of both attempts";
  EXPECT_EQ(record.workers.begin()->second.attempt, 1);
  EXPECT_EQ(record.workers.rbegin()->second.rank, 0);
  EXPECT_EQ(record.checkpoints.size(), 1u);
  EXPECT_EQ(record.events.front().event, "run_opened");
}

TEST(RunReader, AnotherRunInTheFolderIsReadFromItsStart) {
  const testing::TemporaryFolder folder;
  RunReader reader(folder / "run");
  {
    RecordedRun run(folder / "run");
    run.train();
    EXPECT_TRUE(reader.read().ok());
  }
  std::filesystem::rename(folder / "run", folder / "away");  // so that the new file cannot get the old one's number
  RecordedRun fresh(folder / "run", "second");
  fresh.open();
  EXPECT_TRUE(reader.read().ValueOrDie());
  EXPECT_EQ(reader.record().run.name, "second");
  EXPECT_EQ(reader.record().attempts.size(), 1u) << "those of the first are forgotten";
  EXPECT_TRUE(reader.record().checkpoints.empty());
}

// Lines of a journal, as another Paceline might have written them.
std::vector<Json> lines_of(const std::string& folder) {
  std::vector<Json> lines;
  std::ifstream file(journal_path(folder));
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}
void write_lines(const std::string& folder, const std::vector<Json>& lines) {
  std::string text;
  for (const Json& line : lines) text += line.dump() + "\n";
  testing::write_file(journal_path(folder), text);
}

// Of what was decided then, whatever decide() makes of the same events today.
TEST(RunReader, TellsWhatWasEnteredAndNotWhatTodaysPolicyWouldEnter) {
  const testing::TemporaryFolder folder;
  RecordedRun run(folder / "run");
  run.train();
  run.finish();
  std::vector<Json> lines = lines_of(folder / "run");
  // A policy that gives an exception no second try and has words of its own for it.
  const auto failed = std::ranges::find_if(lines, [](const Json& line) { return line["event"] == "worker_failed"; });
  ASSERT_NE(failed, lines.end());
  failed->at("then")["entered"] = {
      {{"state", "shutting_down"}, {"reason", "no second try"}, {"attempt", 1}, {"world_size", 1}}};
  failed->at("then")["failures"] = {{1, "no second try"}};
  lines.erase(failed + 1, lines.end());
  lines.push_back({{"event", "a kind that is no more"},
                   {"time", 1'800'000'100},
                   {"then",
                    {{"entered", {{{"state", "errored"}, {"reason", "-"}, {"attempt", 1}, {"world_size", 1}}}},
                     {"closed", 1},
                     {"error", "It failed."}}}});
  write_lines(folder / "run", lines);

  const track::RunRecord record = read_run_folder(folder / "run").ValueOrDie();
  EXPECT_EQ(record.run.state, "errored");
  EXPECT_EQ(record.run.since, 1'800'000'100);
  EXPECT_EQ(record.run.error, "It failed.");
  ASSERT_EQ(record.attempts.size(), 1u);
  EXPECT_EQ(record.attempts[0].failure, "no second try");
  EXPECT_EQ(record.workers.at(1).stage, "gone");
}

// Its end and the next group's start are one decision.
TEST(RunReader, AnAttemptThatIsFollowedAtOnceKeepsItsFailure) {
  const testing::TemporaryFolder folder;
  RecordedRun run(folder.path());
  run.open();
  run.add(policy::NodeJoined{.node = {.name = "local"}});
  run.add(policy::WorkerJoined{.worker = run.worker(), .pid = 9});
  run.add(policy::WorkerExited{.worker = run.worker(), .end = {.status = {.signal = 9}, .phase = Phase::training}});
  const track::RunRecord record = read_run_folder(folder.path()).ValueOrDie();
  ASSERT_EQ(record.attempts.size(), 2u);
  EXPECT_THAT(record.attempts[0].failure, HasSubstr("SIGKILL"));
  EXPECT_EQ(record.attempts[1].failure, "");
  EXPECT_EQ(record.workers.at(1).stage, "gone");
}

// Each "run_opened" says how the lines after it are to be read.
TEST(RunReader, ReadsARunThatAnEarlierPacelineHasTakenOver) {
  const testing::TemporaryFolder folder;
  RecordedRun run(folder / "run");
  run.train();
  std::vector<Json> lines = lines_of(folder / "run");
  const auto opened = static_cast<int64_t>(lines.size());
  run.open();
  run.add(policy::NodeJoined{.node = {.name = "local"}});
  run.add(policy::WorkerJoined{.worker = run.worker(), .pid = 9});
  const track::RunRecord expected = read_run_folder(folder / "run").ValueOrDie();
  lines = lines_of(folder / "run");
  for (auto line = lines.begin() + opened; line != lines.end(); ++line) {
    line->erase("format");
    line->erase("then");
  }
  write_lines(folder / "run", lines);
  track::RunRecord record = read_run_folder(folder / "run").ValueOrDie();
  EXPECT_EQ(record.run.attempt, 3);
  record.run.journal_bytes = expected.run.journal_bytes;
  EXPECT_EQ(record, expected);
}

TEST(RunReader, RefusesAJournalOfALaterPacelineAndSaysWhatToDo) {
  const testing::TemporaryFolder folder;
  RecordedRun run(folder / "run");
  run.open();
  std::vector<Json> lines = lines_of(folder / "run");
  lines[0]["format"] = kJournalFormat + 1;
  write_lines(folder / "run", lines);
  for (const arrow::Status& refused : {read_run_folder(folder / "run").status(), replay(folder / "run").status()}) {
    EXPECT_TRUE(refused.IsNotImplemented());
    EXPECT_THAT(refused.message(), AllOf(HasSubstr("run/journal.jsonl: a later Paceline wrote it, in format " +
                                                   std::to_string(kJournalFormat + 1)),
                                         HasSubstr("use the Paceline that ran it")));
  }
}

TEST(RunReader, SaysWhatCannotBeRead) {
  const testing::TemporaryFolder folder;
  EXPECT_THAT(read_run_folder(folder / "none").status().message(), HasSubstr("holds no run"));
  testing::write_file(folder / "run/journal.jsonl", "nonsense\n");
  EXPECT_THAT(read_run_folder(folder / "run").status().message(),
              AllOf(HasSubstr("journal.jsonl"), HasSubstr("line 1")));
}

TEST(RunReader, TellsWhatStandsBeforeADamagedLine) {
  const testing::TemporaryFolder folder;
  RecordedRun run(folder / "run");
  run.open();
  const track::RunRecord whole = read_run_folder(folder / "run").ValueOrDie();
  std::ofstream(folder / "run/journal.jsonl", std::ios::app) << "nonsense\n{}\n";
  RunReader reader(folder / "run");
  ASSERT_TRUE(reader.read().ok());
  EXPECT_EQ(reader.record().run.state, whole.run.state);
  ASSERT_EQ(reader.record().events.size(), whole.events.size() + 1);
  EXPECT_EQ(reader.record().events.back().event, "journal_damaged");
  EXPECT_FALSE(reader.read().ValueOrDie()) << "said once";
  EXPECT_EQ(reader.record().events.size(), whole.events.size() + 1);
  ASSERT_TRUE(Journal::open(folder / "run").ok());  // the next driver sets the damage aside
  EXPECT_TRUE(reader.read().ValueOrDie());
  EXPECT_EQ(reader.record().events.size(), whole.events.size());
}

}  // namespace
}  // namespace paceline::run
