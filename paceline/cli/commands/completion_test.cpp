#include "paceline/cli/commands/completion.h"

#include <gmock/gmock.h>

#include "paceline/cli/command.h"
#include "paceline/cli/runs_fixture.h"

namespace paceline::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class CompletionTest : public RunsTest {
 protected:
  CompletionTest() {
    for (const auto add : {add_show, add_checkpoint, add_completion, add_metrics}) add(program_, exit_code_);
  }
  Completion completed(const std::vector<std::string>& words) { return complete(program_, words); }

  CLI::App program_{"", "paceline"};
  int exit_code_ = 0;
};

TEST_F(CompletionTest, CommandsOptionsAndRuns) {
  EXPECT_THAT(completed({""}).words, AllOf(Contains("show"), Contains("checkpoint")));
  EXPECT_THAT(completed({"sh"}).words, ElementsAre("show"));
  EXPECT_THAT(completed({"checkpoint", "ver"}).words, ElementsAre("verify"));
  EXPECT_THAT(completed({"show", "--j"}).words, ElementsAre("--json"));
  EXPECT_THAT(completed({"completion", ""}).words, ElementsAre("bash", "zsh"));
  EXPECT_TRUE(completed({"show", "mn"}).run);
  EXPECT_TRUE(completed({"checkpoint", "ls", ""}).run);
  EXPECT_FALSE(completed({"checkpoint", "verify", ""}).run) << "a path";
  EXPECT_THAT(completed({"metrics", "mnist", "--plot", ""}), (Completion{})) << "a value";
  EXPECT_THAT(completed({}), (Completion{}));
}

TEST_F(CompletionTest, TheProgramNamesRuns) {
  finished("mnist");
  finished("mnist large");
  finished("cifar");
  run_program("index " + storage(""));
  EXPECT_THAT(run_program("__complete show mn").output, AllOf(HasSubstr("mnist\n"), HasSubstr("mnist large\n")));
  EXPECT_EQ(run_program("__complete show cif").output, "cifar\n");
  EXPECT_THAT(run_program("--help").output, Not(HasSubstr("__complete")));
}

// What bash itself makes of it.
TEST_F(CompletionTest, BashTakesTheScript) {
  finished("mnist large");
  run_program("index " + storage(""));
  const Outcome script = run_program("completion bash");
  EXPECT_EQ(script.exit_code, kDone);
  testing::write_file(home_ / "script", "paceline() { " PACELINE_PROGRAM " \"$@\"; }\n" + script.output +
                                            "COMP_WORDS=(paceline \"$@\"); COMP_CWORD=$#; _paceline\n"
                                            "printf '%s\\n' \"${COMPREPLY[@]}\"\n");
  const auto bash = [&](const std::string& words) {
    return run_command_line("bash " + (home_ / "script") + " " + words).output;
  };
  EXPECT_EQ(bash("sho"), "show\n");
  EXPECT_EQ(bash("show m"), "mnist\\ large\n") << "quoted";
  EXPECT_EQ(bash("show --js"), "--json\n");
  EXPECT_THAT(run_program("completion zsh").output, HasSubstr("#compdef paceline"));
  EXPECT_EQ(run_program("completion fish").exit_code, kWrongUse);
}

}  // namespace
}  // namespace paceline::cli
