#include "paceline/run/reader.h"

#include <gmock/gmock.h>

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

TEST(RunReader, SaysWhatCannotBeRead) {
  const testing::TemporaryFolder folder;
  EXPECT_THAT(read_run_folder(folder / "none").status().message(), HasSubstr("holds no run"));
  testing::write_file(folder / "run/journal.jsonl", "{\"event\":\"joined\",\"time\":1}\nnonsense\n");
  EXPECT_THAT(read_run_folder(folder / "run").status().message(),
              AllOf(HasSubstr("journal.jsonl"), HasSubstr("line 2")));
}

}  // namespace
}  // namespace paceline::run
