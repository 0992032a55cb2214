// list, index and show, with run folders and a run store of their own.
#include <gmock/gmock.h>
#include <unistd.h>

#include "paceline/cli/command.h"
#include "paceline/cli/runs_fixture.h"
#include "paceline/run/reader.h"
#include "paceline/views/known_runs.h"

namespace paceline::cli {

using namespace views;
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(RunsTest, WithoutAnyThereIsNothingToList) {
  const Outcome outcome = run_program("list");
  EXPECT_EQ(outcome.exit_code, kDone);
  EXPECT_THAT(outcome.output, HasSubstr("no runs"));
  EXPECT_FALSE(std::filesystem::exists(home_ / "state"));
}

TEST_F(RunsTest, IndexedRunsAreListedAndFoundByName) {
  finished("mnist");
  finished("cifar");
  const Outcome indexed = run_program("index " + storage(""));
  EXPECT_EQ(indexed.exit_code, kDone) << indexed.output;
  EXPECT_EQ(indexed.output, "2 runs indexed\n");
  EXPECT_THAT(run_program("list").output, AllOf(HasSubstr("mnist"), HasSubstr("finished"), HasSubstr("loss 0.25")));
  const Json run = listed()[0];
  EXPECT_EQ(run["state"], "finished");
  EXPECT_EQ(run["driver"], nullptr);
  EXPECT_EQ(run["gone"], false);
  EXPECT_THAT(run_program("show mni").output, HasSubstr("mnist: finished\n"));
  EXPECT_THAT(run_program("show mnits").output, HasSubstr("did you mean \"mnist\"?"));
  EXPECT_EQ(Json::parse(run_program("list --json --limit 1").output).size(), 1u);
  EXPECT_EQ(Json::parse(run_program("list --json --state running").output).size(), 0u);
  const Outcome misspelt = run_program("list --state runing");
  EXPECT_EQ(misspelt.exit_code, kWrongUse);
  EXPECT_THAT(misspelt.output, AllOf(HasSubstr("no run is ever in the state \"runing\"; there are: driver died"),
                                     HasSubstr("did you mean \"running\"?")));
}

TEST_F(RunsTest, TheHomeFolderIsFoundWhereTheShellHasLeftIt) {
  finished("mnist");
  EXPECT_EQ(run_program("index '~/storage'").output, "1 run indexed\n");
  EXPECT_THAT(run_program("checkpoint verify '~/storage/none'").output, HasSubstr(storage("none")));
  EXPECT_EQ(run_program("metrics --plot loss -o '~/curve.svg' mnist").output, "");
  EXPECT_TRUE(std::filesystem::exists(home_ / "curve.svg"));
  EXPECT_THAT(run_program("show '~someone/mnist'").output, HasSubstr("other users' folders are not resolved"));
}

TEST_F(RunsTest, ADriverThatDiedShowsAsSuch) {
  run::RecordedRun run(storage("mnist"));
  run.open(host_name(), ::getpid());  // this process started after the journal's time: its id was used anew
  EXPECT_EQ(run_program("index " + storage("mnist")).exit_code, kDone);
  EXPECT_EQ(listed()[0]["driver"], "alive") << "opened in 2027";
  track::RunRow entry = run::read_run_folder(storage("mnist")).ValueOrDie().run;
  entry.opened = 1'000'000'000;
  EXPECT_EQ(driver_state(entry), DriverState::gone) << "this process started later: its id was used anew";
  entry.host = "elsewhere";
  EXPECT_EQ(driver_state(entry), DriverState::elsewhere);
}

TEST_F(RunsTest, WhatADeadDriverDidNotRecordIsReadFromItsFolder) {
  run::RecordedRun run(storage("mnist"));
  run.open();
  EXPECT_EQ(run_program("index " + storage("mnist")).exit_code, kDone);
  run.train();
  run.finish();
  EXPECT_EQ(listed()[0]["state"], "finished");
  run_program("list");
  const auto store = track::RunStore::open_for_reading(home_ / "state/runs.sqlite").ValueOrDie();
  EXPECT_EQ(store.list().ValueOrDie()[0].state, "finished") << "and kept";
}

TEST_F(RunsTest, ARunWithoutItsFolderIsStillKnown) {
  finished("mnist");
  run_program("index " + storage(""));
  std::filesystem::remove_all(storage("mnist"));
  EXPECT_THAT(run_program("list").output, HasSubstr("deleted"));
  EXPECT_EQ(listed()[0]["gone"], true);
  const Outcome shown = run_program("show mnist");
  EXPECT_EQ(shown.exit_code, kDone);
  EXPECT_THAT(shown.output, AllOf(HasSubstr("(deleted)"), HasSubstr("no such digit"), HasSubstr("loss 0.25")));
  EXPECT_EQ(run_program("index").output, "0 runs indexed, 1 without a folder (`paceline prune --gone`)\n");
  finished("mnist");
  run_program("index " + storage(""));
  EXPECT_EQ(listed().size(), 1u) << "the name starts afresh";
}

TEST_F(RunsTest, ARunFromAnotherMachineIsIndexedAndShown) {
  run::RecordedRun run(storage("mnist"));
  run.open("another-machine", ::getpid());
  run.train();
  EXPECT_EQ(run_program("index " + storage("mnist")).exit_code, kDone);
  EXPECT_EQ(listed()[0]["driver"], "elsewhere");
  EXPECT_THAT(run_program("show mnist").output, HasSubstr("on another-machine, which cannot be seen from here"));
}

TEST_F(RunsTest, ADamagedStoreIsMadeAnew) {
  finished("mnist");
  testing::write_file(home_ / "state/runs.sqlite", std::string(50'000, 'x'));
  const Outcome list = run_program("list");
  EXPECT_EQ(list.exit_code, kFailed);
  EXPECT_THAT(list.output, HasSubstr("paceline index"));
  EXPECT_EQ(run_program("show " + storage("mnist")).exit_code, kDone) << "a folder needs no store";
  const Outcome indexed = run_program("index " + storage(""));
  EXPECT_THAT(indexed.output,
              AllOf(HasSubstr("was replaced"), HasSubstr("runs.sqlite.damaged"), HasSubstr("1 run indexed")));
  EXPECT_EQ(listed().size(), 1u);
}

TEST_F(RunsTest, ADamagedRunCostsItselfOnly) {
  finished("mnist");
  testing::write_file(storage("broken/journal.jsonl"), "nonsense\n");
  const Outcome indexed = run_program("index " + storage(""));
  EXPECT_EQ(indexed.exit_code, kFailed);
  EXPECT_THAT(indexed.output, AllOf(HasSubstr("1 run indexed"), HasSubstr("broken"), HasSubstr("line 1")));
  const Json json = Json::parse(run_program("index --json " + storage("")).output);
  EXPECT_EQ(json["indexed"], 1);
  EXPECT_EQ(json["problems"].size(), 1u);
}

TEST_F(RunsTest, AnyNameThatAFolderCanHave) {
  for (const std::string name : {"with space", "new\nline", "not\xffUTF-8", "..dots", "quote's"}) finished(name);
  EXPECT_EQ(run_program("index " + storage("")).output, "5 runs indexed\n");
  EXPECT_EQ(listed().size(), 5u);
  const std::string text = run_program("list").output;
  EXPECT_THAT(text, AllOf(HasSubstr("new\\nline"), HasSubstr("not\\xffUTF-8"), HasSubstr("with space")));
  EXPECT_EQ(run_program("show 'with space'").exit_code, kDone);
  EXPECT_EQ(run_program("show 'new\nline'").exit_code, kDone);
  EXPECT_EQ(run_program("show 'not\xffUTF-8'").exit_code, kDone);
}

TEST_F(RunsTest, ALinkIsTheSameRun) {
  finished("mnist");
  std::filesystem::create_directory_symlink(home_ / "storage", home_ / "link");
  run_program("index " + storage(""));
  EXPECT_EQ(run_program("index " + (home_ / "link")).exit_code, kDone);
  EXPECT_EQ(listed().size(), 1u);
  EXPECT_EQ(run_program("show " + (home_ / "link/mnist/")).exit_code, kDone);
  EXPECT_EQ(run_program("show " + (home_ / "link/../storage/mnist")).exit_code, kDone);
}

}  // namespace
}  // namespace paceline::cli
