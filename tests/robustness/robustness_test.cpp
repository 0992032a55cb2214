// Each way in which a run can go wrong gives a clear error, loses no committed checkpoint and leaves nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "paceline/checkpoint/store.h"
#include "paceline/train/result.h"
#include "tests/robustness/driver_process.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Environment = std::map<std::string, std::string>;

class Robustness : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/paceline_robustness_XXXXXX";
    storage_ = ::mkdtemp(pattern);
  }
  void TearDown() override { std::filesystem::remove_all(storage_); }

  testing::DriverProcess start(const std::string& scenario, Environment environment = {},
                               const std::string& run = "run") {
    return testing::DriverProcess(SCENARIOS_PROGRAM, {scenario, storage_, run}, std::move(environment));
  }
  std::string folder() const { return storage_ + "/run"; }
  std::vector<checkpoint::Published> checkpoints() const { return checkpoint::Store(folder()).list().ValueOrDie(); }
  // Nothing alive, nothing unpublished, every published checkpoint whole.
  void expect_clean(const testing::DriverProcess& driver) {
    EXPECT_THAT(driver.leftovers(), IsEmpty());
    for (const auto& published : checkpoints()) {
      EXPECT_TRUE(checkpoint::verify(published.path).ok()) << published.path;
    }
  }
  std::string controller_log() const {
    std::ifstream file(folder() + "/logs/controller.log");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::string storage_;
};

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
                                     HasSubstr("the disk of the data is gone"), HasSubstr("scenarios.cpp:")));
  EXPECT_EQ(checkpoints().size(), 2u);
  expect_clean(driver);
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

TEST_F(Robustness, AKilledWorkerIsReplacedWithinTheBudget) {
  auto driver = start("killed", {{"MAX_FAILURES", "1"}});
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("continue from checkpoint_000002"), HasSubstr("state finished")));
  EXPECT_EQ(checkpoints().size(), 5u);
  expect_clean(driver);
}

TEST_F(Robustness, ACrashIsNamedWithItsSignal) {
  auto driver = start("crash");
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("rank 1"), HasSubstr("SIGSEGV")));
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
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("3"), HasSubstr("2"), HasSubstr("report")));
  EXPECT_EQ(checkpoints().size(), 2u);
  expect_clean(driver);
}

TEST_F(Robustness, SavingOnSomeRanksOnlyNamesTheMissingOnes) {
  auto driver = start("save_on_rank_zero_only");
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("Checkpoint::save"), HasSubstr("1")));
  EXPECT_THAT(checkpoints(), IsEmpty());
  expect_clean(driver);
}

TEST_F(Robustness, AWrongConfigurationTypeNamesTheKey) {
  auto driver = start("wrong_config");
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), HasSubstr(R"("rate" is the string "fast"; wanted an integer)"));
  expect_clean(driver);
}

TEST_F(Robustness, DeathInStartUpIsTriedAgain) {
  auto driver = start("well", {{"DIE_ONCE", storage_ + "/died"}});
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_TRUE(std::filesystem::exists(storage_ + "/died"));
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
  const std::string path = checkpoints().at(0).path;
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
  const size_t first = driver.output().find("cores");
  EXPECT_NE(first, std::string::npos) << driver.output();
  expect_clean(driver);
}

TEST_F(Robustness, AStoragePathThatCannotBeWrittenFailsBeforeAWorkerStarts) {
  std::ofstream(storage_ + "/file") << "not a folder";
  testing::DriverProcess driver(SCENARIOS_PROGRAM, {"well", storage_ + "/file/below", "run"});
  EXPECT_EQ(driver.wait(), 2);
  EXPECT_THAT(driver.output(), HasSubstr(storage_ + "/file"));
  EXPECT_THAT(driver.output(), Not(HasSubstr("rank 0")));
}

TEST_F(Robustness, TheProgramWorksInTheCallingProcess) {
  auto driver = start("well", {{"WORKERS", "0"}});
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_EQ(checkpoints().size(), 5u);
  expect_clean(driver);
}

TEST_F(Robustness, WorkersUnderTorchrunAreRefused) {
  auto driver = start("well", {{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  EXPECT_EQ(driver.wait(), 2);
  EXPECT_THAT(driver.output(), HasSubstr("torchrun"));
}

}  // namespace
}  // namespace paceline
