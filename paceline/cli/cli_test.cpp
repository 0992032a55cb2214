// The program itself: what it prints and its exit codes.
#include <gmock/gmock.h>

#include <filesystem>

#include "paceline/checkpoint/stage.h"
#include "paceline/checkpoint/store.h"
#include "paceline/cli/command.h"
#include "paceline/cli/program_fixture.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryFolder;

TEST(Program, SaysWhatItIsAndWhatItCan) {
  const Outcome version = run_program("--version");
  EXPECT_EQ(version.exit_code, kDone);
  EXPECT_THAT(version.output, HasSubstr("paceline 0."));
  const Outcome help = run_program("--help");
  EXPECT_EQ(help.exit_code, kDone);
  EXPECT_THAT(help.output,
              AllOf(HasSubstr("show"), HasSubstr("stop"), HasSubstr("checkpoint"), HasSubstr("Exit codes")));
}

TEST(Program, WrongUseIsExplained) {
  EXPECT_EQ(run_program("").exit_code, kWrongUse);
  EXPECT_EQ(run_program("show").exit_code, kWrongUse);
  EXPECT_THAT(run_program("show").output, AllOf(HasSubstr("RUN is required"), HasSubstr("`paceline show --help`")));
  const Outcome flag = run_program("show folder --jsn");
  EXPECT_EQ(flag.exit_code, kWrongUse);
  EXPECT_THAT(flag.output, AllOf(HasSubstr("no option --jsn; did you mean \"--json\"?"), HasSubstr("--help")));
  const Outcome command = run_program("shwo folder --json");
  EXPECT_EQ(command.exit_code, kWrongUse);
  EXPECT_THAT(command.output, HasSubstr("no command \"shwo\"; did you mean \"show\"?"));
  for (const char* wrong : {"--seconds 61", "--seconds 0", "--rank -1", "-o x.svg", "--memory"}) {
    EXPECT_EQ(run_program(std::string("profile folder ") + wrong).exit_code, kWrongUse) << wrong;
  }
  EXPECT_THAT(run_program("profile folder -o x.svg").output, HasSubstr("ends with .json (speedscope)"));
  EXPECT_THAT(run_program("profile --help").output,
              AllOf(HasSubstr("--rank N"), HasSubstr("--seconds S"), HasSubstr("--cpu"), HasSubstr("speedscope")));
  EXPECT_THAT(run_program("checkpoint verfy x").output, HasSubstr("did you mean \"verify\"?"));
  EXPECT_THAT(run_program("stop one two").output, HasSubstr("no further argument \"two\""));
}

TEST(Program, WhatWasMeantIsAskedWithExitCode2) {
  const TemporaryFolder home;
  const std::string environment = "HOME=" + home.path() + " PACELINE_STATE_DIR=" + (home / "state") + " ";
  const auto outcome_of = [&](const std::string& arguments) {
    return run_command_line(environment + PACELINE_PROGRAM + " " + arguments);
  };
  for (const auto& [arguments, said] : std::vector<std::pair<std::string, std::string>>{
           {"prune", "which runs?"},
           {"prune --older-than 5", "\"5\" is no age"},
           {"show nonesuch", "no run is called \"nonesuch\""},
           {"rm nonesuch --yes", "no run is called \"nonesuch\""},
           {"metrics x --plot loss -o a.gif", "a.gif\" names no kind of drawing"},
           {"list --state bogus", "no run is ever in the state \"bogus\""},
           {"run --num-wrokers 2 x", "go behind it; did you mean \"--num-workers\"?"}}) {
    const Outcome outcome = outcome_of(arguments);
    EXPECT_EQ(outcome.exit_code, kWrongUse) << arguments << "\n" << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(said)) << arguments;
  }
  EXPECT_THAT(outcome_of("status").output, Not(HasSubstr("paceline status")));
}

TEST(Program, RunSpeaksOfItsFlags) {
  const TemporaryFolder home;
  const Outcome outcome =
      run_command_line("PACELINE_STATE_DIR=" + (home / "state") + " " PACELINE_PROGRAM " run --storage-path " +
                       home.path() + " --name ../b -- true");
  EXPECT_EQ(outcome.exit_code, kFailed);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("--name is \"../b\""), Not(HasSubstr("Config"))));
}

TEST(Program, VerifiesCheckpoints) {
  const TemporaryFolder folder;
  testing::write_file(folder / "user/file", "content");
  std::filesystem::create_directories(folder / "run");
  auto stage = checkpoint::Stage::create(folder / "run", {.attempt = {1}, .worker = {1}}, 1).ValueOrDie();
  ASSERT_TRUE(stage.copy_folder(folder / "user").ok());
  const auto published =
      checkpoint::Store(folder / "run").publish({{0, stage.finish().ValueOrDie()}}, {.report = 1}).ValueOrDie();
  const Outcome whole = run_program("checkpoint verify " + published.path);
  EXPECT_EQ(whole.exit_code, kDone);
  EXPECT_EQ(whole.output, published.path + " is whole: 1 file, 0 tensors, 7 bytes\n");
  testing::write_file(published.path + "/file", "c0ntent");
  const Outcome damaged = run_program("checkpoint verify " + published.path);
  EXPECT_EQ(damaged.exit_code, kFailed);
  EXPECT_THAT(damaged.output, AllOf(HasSubstr("paceline: "), HasSubstr(published.path + "/file"), HasSubstr("wanted")));
  const Outcome as_json = run_program("checkpoint verify --json " + published.path);
  EXPECT_EQ(as_json.exit_code, kFailed);
  const Json said = Json::parse(as_json.output.substr(as_json.output.find('{')));
  EXPECT_EQ(said.at("is_whole"), false);
  EXPECT_THAT(said.at("problem").get<std::string>(), HasSubstr(published.path + "/file"));
  EXPECT_EQ(said.at("name"), "checkpoint_000001");
}

TEST(Program, AFolderWithoutARunCannotBeShownOrStopped) {
  const TemporaryFolder folder;
  for (const char* command : {"show ", "show --json ", "stop "}) {
    const Outcome outcome = run_program(command + folder.path());
    EXPECT_EQ(outcome.exit_code, kFailed);
    EXPECT_THAT(outcome.output, HasSubstr("holds no run"));
  }
}

}  // namespace
}  // namespace paceline::cli
