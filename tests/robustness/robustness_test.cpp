// Each way in which a run can go wrong gives a clear error, loses no committed checkpoint and leaves nothing behind.
#include "tests/robustness/robustness_fixture.h"

#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "paceline/train/result.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(Robustness, AHealthyRunFinishes) {
  auto driver = start("well");
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), HasSubstr("state finished"));
  EXPECT_EQ(checkpoints().size(), 5u);
  expect_clean(driver);
}

TEST_F(Robustness, AnExceptionNamesRankTypeTextAndTheUsersLine) {
  auto driver = start("exception");
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("rank 1"), HasSubstr("std::runtime_error"),
                                     HasSubstr("the disk of the data is gone"), HasSubstr("fault_loops.cpp:")));
  EXPECT_EQ(checkpoints().size(), 2u);
  expect_clean(driver);
}

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST_F(Robustness, AFailureThatNobodyCatchesIsToldOnce) {
  auto driver = start("exception", {{"UNCAUGHT", "ours"}});
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_EQ(count(driver.output(), "the disk of the data is gone"), 1u) << driver.output();
  EXPECT_THAT(driver.output(),
              AllOf(HasSubstr("fault_loops.cpp:"), HasSubstr("worker_2.log"), Not(HasSubstr("terminate"))));
  expect_clean(driver);
}

TEST_F(Robustness, AnErrorThatNobodyCatchesIsToldOnce) {
  auto driver = start("unregistered", {{"UNCAUGHT", "ours"}});
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("what waits to be written"), HasSubstr("error: the train loop given"),
                                     Not(HasSubstr("terminate"))));
  EXPECT_THAT(driver.leftovers(), IsEmpty());
}

TEST_F(Robustness, AnotherExceptionEndsTheDriverAsWithoutPaceline) {
  auto driver = start("unregistered", {{"UNCAUGHT", "other"}});
  EXPECT_EQ(driver.wait(), -SIGABRT);
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("terminate called"), HasSubstr("of the program's own")));
  EXPECT_THAT(driver.leftovers(), IsEmpty());
}

TEST_F(Robustness, TheSameExceptionOnAllRanksIsShownOnce) {
  auto driver = start("exception_everywhere");
  EXPECT_EQ(driver.wait(), 1);
  const std::string& output = driver.output();
  const std::string shown = output.substr(output.find("TrainingFailedError"));
  EXPECT_THAT(shown, HasSubstr("Ranks 0-1 of 2"));
  const size_t first = shown.find("bad sample 12345");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(shown.find("bad sample 12345", first + 1), std::string::npos) << shown;
  expect_clean(driver);
}

TEST_F(Robustness, AKilledWorkerIsNamedWithItsSignal) {
  auto driver = start("killed");
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("rank 1"), HasSubstr("SIGKILL")));
  EXPECT_EQ(checkpoints().size(), 2u);
  expect_clean(driver);
}

TEST_F(Robustness, AWorkerThatClosesItsChannelIsToldSo) {
  auto driver = start("closes_local_sockets");
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(),
              AllOf(HasSubstr("rank 1"), HasSubstr("ended itself, because its channel to Paceline was gone"),
                    HasSubstr("closefrom()"), HasSubstr("ends, because its channel to the agent is gone")));
  expect_clean(driver);
}

TEST_F(Robustness, AKilledWorkerIsReplacedWithinTheBudget) {
  auto driver = start("killed", {{"MAX_FAILURES", "1"}});
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("continue from checkpoint_000002"), HasSubstr("state finished")));
  EXPECT_EQ(checkpoints().size(), 5u);
  expect_clean(driver);
}

TEST_F(Robustness, ACrashIsNamedWithItsSignalAddressAndStack) {
  auto driver = start("crash");
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("Rank 1 of 2"), HasSubstr("SIGSEGV"), HasSubstr("a null pointer"),
                                     HasSubstr("write_to_nowhere(int volatile*) (fault_loops.cpp:")));
  expect_clean(driver);
}

TEST_F(Robustness, ExitInTheMiddleOfTheLoopIsAFailure) {
  auto driver = start("exit_early");
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("rank 0"), HasSubstr("exited with code 0")));
  expect_clean(driver);
}

TEST_F(Robustness, AStoppedWorkerIsFoundAndReplaced) {
  auto driver = start("freeze", {{"MAX_FAILURES", "1"}, {"HEARTBEAT_TIMEOUT", "1"}});
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), HasSubstr("continue from checkpoint_000002"));
  EXPECT_THAT(controller_log(), HasSubstr("no sign of life"));
  expect_clean(driver);
}

TEST_F(Robustness, NoWorkerOutlivesItsDriver) {
  auto driver = start("deaf");
  ASSERT_TRUE(driver.wait_for_output("looping")) << driver.output();
  EXPECT_THAT(driver.processes(), Not(IsEmpty()));
  driver.signal(SIGKILL);
  EXPECT_EQ(driver.wait(), -SIGKILL);
  EXPECT_THAT(driver.leftovers(), IsEmpty());
}

TEST_F(Robustness, ARunOfADeadDriverIsContinued) {
  {
    auto driver = start("endless");
    ASSERT_TRUE(driver.wait_for_output("looping"));
    driver.signal(SIGKILL);
    driver.wait();
    EXPECT_THAT(driver.leftovers(), IsEmpty());
  }
  auto driver = start("well");
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  expect_clean(driver);
}

TEST_F(Robustness, AFinishedRunTrainsAgainAndKeepsWhatItHad) {
  {
    auto driver = start("well");
    ASSERT_EQ(driver.wait(), 0) << driver.output();
  }
  const int64_t rows = Result::from_path(folder()).metrics_history()->num_rows();
  auto driver = start("well", {{"WORKERS", "1"}});
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), HasSubstr("continue from checkpoint_000005"));
  EXPECT_EQ(checkpoints().size(), 10u);
  EXPECT_EQ(Result::from_path(folder()).metrics_history()->num_rows(), rows + 5);
  expect_clean(driver);
}

TEST_F(Robustness, ASecondDriverOfTheSameRunIsRefusedWithTheHolder) {
  auto first = start("endless");
  ASSERT_TRUE(first.wait_for_output("looping"));
  auto second = start("well");
  EXPECT_EQ(second.wait(), 2);
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  EXPECT_THAT(second.output(), AllOf(HasSubstr(std::to_string(first.pid())), HasSubstr(host)));
  first.signal(SIGINT);
  EXPECT_EQ(first.wait(), 0) << first.output();
  expect_clean(first);
}

TEST_F(Robustness, OneInterruptStopsCleanly) {
  auto driver = start("endless");
  ASSERT_TRUE(driver.wait_for_output("looping"));
  driver.signal(SIGINT);
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), HasSubstr("state aborted"));
  expect_clean(driver);
}

TEST_F(Robustness, SigtermStopsCleanlyAndSaysSo) {
  auto driver = start("endless");
  ASSERT_TRUE(driver.wait_for_output("metrics: step")) << driver.output();
  driver.signal(SIGTERM);
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  const Result result = Result::from_path(folder());
  EXPECT_EQ(result.state, "aborted");
  EXPECT_EQ(result.stop_cause, StopCause::terminated);
  EXPECT_EQ(result.stop_reason, "the driver got SIGTERM");
  expect_clean(driver);
}

TEST_F(Robustness, ThreeInterruptsStopAtOnce) {
  auto driver = start("deaf", {{"STOP_GRACE", "600"}});
  ASSERT_TRUE(driver.wait_for_output("looping"));
  // Signals of one number merge while one is pending: each is sent when the one before has been heard.
  driver.signal(SIGINT);
  ASSERT_TRUE(driver.wait_for_output("stopping: "));
  driver.signal(SIGINT);
  ASSERT_TRUE(driver.wait_for_output("stopping already"));
  driver.signal(SIGINT);
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  expect_clean(driver);
}

TEST_F(Robustness, TheFourthInterruptEndsADriverThatHangs) {
  auto driver = start("endless", {{"HANGING_CALLBACK", "1"}});
  for (int heard = 0; heard <= 3; ++heard) {
    ASSERT_TRUE(driver.wait_for_output("hanging, interrupted " + std::to_string(heard) + " times"));
    driver.signal(SIGINT);
  }
  EXPECT_EQ(driver.wait(), -SIGINT);
  EXPECT_THAT(driver.leftovers(), IsEmpty());
}

TEST_F(Robustness, ADiskThatHangsAtTheVeryEndIsNamedAndASignalEndsTheDriver) {
  for (const auto& [place, path] : std::map<std::string, std::string>{{"journal.sync=hang@2", "/journal.jsonl"},
                                                                      {"store.collect=hang@2", "/.staging"}}) {
    auto driver = start("well", {{"PACELINE_FAIL_POINTS", place}}, "run_" + place);
    const std::string folder = storage_ / ("run_" + place);
    ASSERT_TRUE(driver.wait_for_output("still waits for the disk, to ")) << driver.output();
    EXPECT_THAT(driver.output(), HasSubstr(folder + path + "; Ctrl-C or SIGTERM ends it without that"));
    driver.signal(SIGTERM);
    EXPECT_EQ(driver.wait(), -SIGTERM);
    EXPECT_THAT(driver.leftovers(), IsEmpty());
    EXPECT_EQ(checkpoint::Store(folder).list().ValueOrDie().size(), 5u);
  }
}

TEST_F(Robustness, APublicationThatHangsAtTheEndIsNamed) {
  auto driver = start("well", {{"PACELINE_FAIL_POINTS", "publish.before_rename=hang@5"}});
  ASSERT_TRUE(driver.wait_for_output("still waits for the checkpoint of report 5 to be published in " + folder()))
      << driver.output();
  driver.signal(SIGTERM);
  ASSERT_TRUE(driver.wait_for_output("stopping: "));
  driver.signal(SIGINT);
  ASSERT_TRUE(driver.wait_for_output("stopping already"));
  driver.signal(SIGTERM);
  ASSERT_TRUE(driver.wait_for_output("still waits for what is being published or deleted in " + folder()));
  driver.signal(SIGINT);
  EXPECT_EQ(driver.wait(), -SIGINT);
  EXPECT_THAT(driver.leftovers(), IsEmpty());
}

TEST_F(Robustness, ADeafWorkerIsEndedAfterTheGrace) {
  auto driver = start("deaf", {{"STOP_GRACE", "0.2"}});
  ASSERT_TRUE(driver.wait_for_output("looping"));
  driver.signal(SIGINT);
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), HasSubstr("state aborted"));
  expect_clean(driver);
}

TEST_F(Robustness, AnUnregisteredLoopIsRefusedBeforeAnythingStarts) {
  auto driver = start("unregistered");
  EXPECT_EQ(driver.wait(), 2);
  EXPECT_THAT(driver.output(), HasSubstr("PACELINE_TRAIN_LOOP"));
  EXPECT_FALSE(std::filesystem::exists(folder()));
  EXPECT_THAT(driver.leftovers(), IsEmpty());
}

TEST_F(Robustness, DifferentModelsAreRefusedNamingTheParameter) {
  auto driver = start("different_models");
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("rank 1"), HasSubstr("weight")));
  expect_clean(driver);
}

TEST_F(Robustness, RanksThatReportADifferentNumberOfTimesFailWithBothCounts) {
  auto driver = start("uneven_reports");
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(
      driver.output(),
      HasSubstr("the ranks reported a different number of times, and a checkpoint waits: rank 1 returned after 2 "
                "reports; rank 0 has made 3 reports, and report 3 hands over a checkpoint"));
  EXPECT_EQ(checkpoints().size(), 2u);
  expect_clean(driver);
}

TEST_F(Robustness, SavingOnSomeRanksOnlyNamesTheMissingOnes) {
  auto driver = start("save_on_rank_zero_only");
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(),
              HasSubstr("report 1 has a checkpoint from Checkpoint::save() on rank 0 but not on rank 1; "
                        "save() is collective: every rank must call it"));
  EXPECT_THAT(checkpoints(), IsEmpty());
  expect_clean(driver);
}

TEST_F(Robustness, CollectivesThatDoNotFitTogetherAreAnErrorOnEveryRank) {
  auto driver = start("collectives_that_do_not_fit");
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  for (const char* rank : {"(rank 0) ", "(rank 1) "}) {
    const std::string told = std::string(rank) + "told: the ranks' collectives do not fit together: ";
    EXPECT_THAT(driver.output(),
                AllOf(HasSubstr(told + "all_reduce (sum) of Float [2] on rank 0; all_reduce (sum) of "
                                       "Float [3] on rank 1"),
                      HasSubstr(told + "all_gather of Float [2] on rank 0; all_gather of Long [2] on "
                                       "rank 1"),
                      HasSubstr(told + "all_reduce (sum) of Float [2] on rank 1; broadcast from rank 0 "
                                       "of Float [2] on rank 0"),
                      HasSubstr(std::string(rank) + "then 2")));
  }
  expect_clean(driver);
}

TEST_F(Robustness, AWrongConfigurationTypeNamesTheKey) {
  auto driver = start("wrong_config");
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), HasSubstr(R"("rate" is the string "fast"; wanted an integer)"));
  expect_clean(driver);
}

TEST_F(Robustness, DeathInStartUpIsTriedAgain) {
  // What stands before init() is executed again only so.
  auto driver = start("well", {{"DIE_ONCE", storage_ / "died"}, {"PACELINE_START", "exec"}});
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_TRUE(std::filesystem::exists(storage_ / "died"));
  expect_clean(driver);
}

TEST_F(Robustness, WhatWorkersLeaveBehindIsEnded) {
  auto driver = start("leaves_children");
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  expect_clean(driver);
}

TEST_F(Robustness, ABrokenCallbackEndsTheRunWithItsText) {
  auto driver = start("well", {{"BROKEN_CALLBACK", "1"}});
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), HasSubstr("the callback is broken"));
  expect_clean(driver);
}

TEST_F(Robustness, FilesOfSeveralRanksAreMergedTheLowestRankWinning) {
  auto driver = start("own_files");
  ASSERT_EQ(driver.wait(), 0) << driver.output();
  const std::string path = checkpoints().at(0).path.text();
  std::ifstream whole(path + "/whole_model.txt");
  std::string text;
  std::getline(whole, text);
  EXPECT_EQ(text, "model of rank 0");
  EXPECT_TRUE(std::filesystem::exists(path + "/only_0.txt"));
  EXPECT_TRUE(std::filesystem::exists(path + "/only_1.txt"));
  expect_clean(driver);
}

TEST_F(Robustness, RankZerosReturnValueIsTheResults) {
  auto driver = start("returning");
  ASSERT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), HasSubstr(R"(return value {"answer":42})"));
  EXPECT_EQ(Result::from_path(folder()).return_value["answer"], 42);
}

TEST_F(Robustness, MoreWorkersThanCoresRunWithOneWarning) {
  auto driver = start("well", {{"WORKERS", std::to_string(2 * ::sysconf(_SC_NPROCESSORS_ONLN))}});
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  const std::string warning = " workers share ";
  const size_t first = driver.output().find(warning);
  ASSERT_NE(first, std::string::npos) << driver.output();
  EXPECT_EQ(driver.output().find(warning, first + 1), std::string::npos) << driver.output();
  expect_clean(driver);
}

TEST_F(Robustness, AStoragePathThatCannotBeWrittenFailsBeforeAWorkerStarts) {
  std::ofstream(storage_ / "file") << "not a folder";
  auto driver = start_with({"well", storage_ / "file/below", "run"});
  EXPECT_EQ(driver.wait(), 2);
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("RunConfig.storage_path"), HasSubstr(storage_ / "file")));
  EXPECT_THAT(driver.output(), Not(HasSubstr("rank 0")));
}

TEST_F(Robustness, AStopReachesARankThatWaitsForAnother) {
  auto driver = start("waits_in_barrier", {{"STOP_GRACE", "600"}});
  ASSERT_TRUE(driver.wait_for_output("waiting")) << driver.output();
  driver.signal(SIGINT);
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), HasSubstr("state aborted"));
  expect_clean(driver);
}

TEST_F(Robustness, ASavedCheckpointIsReportedOnce) {
  auto driver = start("reports_twice");
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(),
              AllOf(HasSubstr("paceline::UsageError"), HasSubstr("was reported already"), HasSubstr("Ranks 0-1 of 2")));
  EXPECT_EQ(checkpoints().size(), 1u);
  expect_clean(driver);
}

TEST_F(Robustness, SavesThatAreNotReportedDoNotPileUp) {
  auto driver = start("saves_in_vain");
  ASSERT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_EQ(Result::from_path(folder()).return_value, 1);
  expect_clean(driver);
}

TEST_F(Robustness, AnErrorOfADataSetNamesRowTypeAndTheUsersLine) {
  auto driver = start("torn_sample");
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("std::runtime_error"), HasSubstr("is torn"), HasSubstr("row "),
                                     HasSubstr("at get (session_loops.cpp:")));
  expect_clean(driver);
}

TEST_F(Robustness, TheSessionsFunctionsDoWhatTheySay) {
  auto driver = start("session_functions");
  ASSERT_EQ(driver.wait(), 0) << driver.output();
  const Json said = Result::from_path(folder()).return_value;
  EXPECT_EQ(said["sum"], Json({3, 30}));
  EXPECT_EQ(said["max"], Json({2, 20}));
  EXPECT_EQ(said["own"], Json({1, 10}));  // the argument is not changed
  EXPECT_EQ(said["gathered"], Json({{1, 10}, {2, 20}}));
  EXPECT_EQ(said["broadcast"], Json({2, 20}));
  EXPECT_EQ(said["rows"], 7);  // none left out, none twice
  EXPECT_EQ(said["heard"], 2);
  expect_clean(driver);
}

TEST_F(Robustness, ANewRunStartsFromAnotherRunsCheckpoint) {
  {
    auto driver = start("well");
    ASSERT_EQ(driver.wait(), 0) << driver.output();
  }
  const std::string other = storage_ / "other";
  const Environment from_the_third = {{"RESUME_FROM", folder() + "/checkpoint_000003"}};
  auto driver = start("well", from_the_third, "other");
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("continue from checkpoint_000003"), Not(HasSubstr("is ignored"))));
  EXPECT_EQ(checkpoint::Store(other).list().ValueOrDie().size(), 2u);  // steps 4 and 5
  expect_clean(driver, other);
  // A run that has checkpoints goes on from its own, and says so.
  auto again = start("well", from_the_third, "other");
  EXPECT_EQ(again.wait(), 0) << again.output();
  EXPECT_THAT(again.output(), AllOf(HasSubstr("continue from checkpoint_000002"), HasSubstr("is ignored")));
}

TEST_F(Robustness, ARangeRunsItsMaximum) {
  auto driver = start("world_size", {{"LEAST_WORKERS", "1"}, {"WORKERS", "3"}});
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), HasSubstr("world size 3"));
  expect_clean(driver);
}

TEST_F(Robustness, CheckpointsWithLargeMetricsAreListed) {
  auto driver = start("large_metrics");
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  expect_clean(driver);
}

TEST_F(Robustness, ASlowPeerDoesNotBlockReportsOfMetrics) {
  auto driver = start("slow_peer");
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_EQ(Result::from_path(folder()).metrics_history()->num_rows(), 1001);
  expect_clean(driver);
}

}  // namespace
}  // namespace paceline
