// `paceline run` with programs that are shell scripts.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "paceline/cli/command.h"
#include "paceline/cli/program_fixture.h"
#include "paceline/core/json.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/testing/pseudo_terminal.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryFolder;

class RunCommandTest : public ::testing::Test {
 protected:
  Outcome run(const std::string& flags, const std::string& script) {
    testing::write_file(folder_ / "script.sh", script);
    return run_program("run --storage-path " + (folder_ / "runs") + " " + flags + " sh " + (folder_ / "script.sh"));
  }

  TemporaryFolder folder_;
};

TEST_F(RunCommandTest, StartsTheProgramOnEveryRank) {
  const Outcome outcome = run("-n 2 --name job", "echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("rank 0 of 2 at 127.0.0.1\n"), HasSubstr("rank 1 of 2 at 127.0.0.1\n")));
  EXPECT_TRUE(outcome.output.ends_with("\nresults: " + (folder_ / "runs/job") + "\n")) << outcome.output;
  const Outcome shown = run_program("show " + (folder_ / "runs/job"));
  EXPECT_THAT(shown.output, AllOf(HasSubstr("job: finished"), HasSubstr("rank 0       finished, process "),
                                  HasSubstr("rank 1       finished, process ")));
}

TEST_F(RunCommandTest, GivesTheExitCodeOfTheProgramThatFailedFirst) {
  const Outcome outcome = run("-n 2", "[ $RANK = 1 ] || sleep 600; echo no such digit >&2; exit 3");
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("Rank 1 of 2"), HasSubstr("exited with code 3\n"),
                                    HasSubstr("  | no such digit\n"), Not(HasSubstr("train loop"))));
}

TEST_F(RunCommandTest, AProgramThatASignalHasEndedIsToldAsShellsDo) {
  const Outcome outcome = run("", "kill -SEGV $$");
  EXPECT_EQ(outcome.exit_code, 128 + 11);
  EXPECT_THAT(outcome.output, HasSubstr("crashed with SIGSEGV"));
}

// The program asks about itself.
TEST_F(RunCommandTest, ShowAndStacksTellOfTheProgram) {
  const std::string tell = "printf '%s\\n' \"";
  const std::string about = " --json " + (folder_ / "runs/job") + ")\"\n";
  const std::string program = "memory=$(head -c 100000000 /dev/zero | tr '\\0' x)\necho mine $$\n" + tell +
                              "shown $(" PACELINE_PROGRAM " show" + about + tell +
                              "stacks $(" PACELINE_PROGRAM " stacks" + about;
  const Outcome outcome = run("--name job", program);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  const auto line_after = [&](const std::string& word) {
    const size_t at = outcome.output.find("\n" + word + " ") + word.size() + 2;
    return outcome.output.substr(at, outcome.output.find('\n', at) - at);
  };
  const Json worker = Json::parse(line_after("shown")).at("workers").at(0);
  EXPECT_GT(worker.at("resident_bytes").get<int64_t>(), 100'000'000) << worker;
  EXPECT_EQ(Json::parse(line_after("stacks")).at(0).at("stacks").at("pid"), std::stoll(line_after("mine")));
}

TEST_F(RunCommandTest, GivingUpIsToldInFlags) {
  const Outcome outcome = run("--max-restarts 0", "exit 3");
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("giving up: --max-restarts is 0"), Not(HasSubstr("Config"))));
}

TEST_F(RunCommandTest, ARunWithoutANameHasTheProgramsName) {
  EXPECT_EQ(run("", "true").exit_code, 0);
  const std::vector<std::string> names = testing::names_in(folder_ / "runs");
  ASSERT_EQ(names.size(), 1u);
  EXPECT_TRUE(names.front().starts_with("sh_20")) << names.front();
}

TEST_F(RunCommandTest, StartsAllRanksAgainWithinTheBudget) {
  const std::string script =
      "echo start $RANK $TORCHELASTIC_RESTART_COUNT\n"
      "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0\n"
      "[ $RANK = 1 ] && kill -KILL $$\n"
      "sleep 600";
  const Outcome outcome = run("-n 2 --max_restarts=1 --name job", script);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("start 0 1\n"), HasSubstr("start 1 1\n")));
  // Another launch of the same name counts its own restarts.
  const Outcome again = run("-n 1 --name job", "echo restart $TORCHELASTIC_RESTART_COUNT");
  EXPECT_THAT(again.output, HasSubstr("restart 0\n"));
}

// A fifo that the program holds open tells of its end. What is stopped first can do nothing about the other's death.
TEST_F(RunCommandTest, ProgramsEndWhenDriverAndGuardianAreKilledTogether) {
  const std::string fifo = folder_ / "alive";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const Descriptor alive(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const std::string pid = folder_ / "pid";
  testing::write_file(folder_ / "script.sh", "exec 9>" + fifo +
                                                 "\nread -r _ _ _ guardian _ </proc/$PPID/stat\n"
                                                 "driver=$(cat " +
                                                 pid +
                                                 ")\n"
                                                 "kill -STOP $guardian $driver\n"
                                                 "kill -KILL $guardian $driver\n"
                                                 "sleep 600");
  run_command_line("sh -c 'echo $$ >" + pid + "; exec " PACELINE_PROGRAM " run --storage-path " + (folder_ / "runs") +
                   " sh " + (folder_ / "script.sh") + "'");
  pollfd end{alive.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&end, 1, 60'000), 1) << "a program is left";
}

TEST_F(RunCommandTest, PassesTheSignalOnAndWaits) {
  const std::string program =
      "trap 'echo told >&2; exit 0' INT\n"
      "kill -INT $(cat " +
      (folder_ / "pid") +
      ")\n"
      "while true; do sleep 0.05; done";
  testing::write_file(folder_ / "script.sh", program);
  const std::string command = std::string("sh -c 'echo $$ >") + (folder_ / "pid") +
                              "; exec " PACELINE_PROGRAM " run --storage-path " + (folder_ / "runs") + " sh " +
                              (folder_ / "script.sh") + "'";
  const Outcome outcome = run_command_line(command);
  EXPECT_EQ(outcome.exit_code, 128 + 2) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("told\n"));
}

TEST_F(RunCommandTest, TellsTheExceptionThatThePythonProgramRecorded) {
  const Outcome outcome =
      run("-n 2",
          "[ $RANK = 1 ] || sleep 600\n"
          "echo '{\"message\": {\"message\": \"ValueError: bad sample 7\"}}' >$TORCHELASTIC_ERROR_FILE; exit 9");
  EXPECT_EQ(outcome.exit_code, 9);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("Rank 1 of 2"), HasSubstr("failed with ValueError: bad sample 7")));
}

TEST_F(RunCommandTest, StandardOutputGoesOnAsItIs) {
  testing::write_file(folder_ / "script.sh", "echo out $RANK; echo error $RANK >&2");
  const std::string command = PACELINE_PROGRAM " run -q --storage-path " + (folder_ / "runs");
  const Outcome outcome = run_command_line("(" + command + " sh " + (folder_ / "script.sh") + " 2>/dev/null)");
  EXPECT_EQ(outcome.output, "out 0\n");
  const Outcome filtered = run("-n 2 -q -r 0:1 --local-ranks-filter 0", "echo out $RANK; echo error $RANK >&2");
  EXPECT_EQ(filtered.output, "(rank 0) error 0\n");
}

// The pipe holds 64 KiB, and the reader begins when the program waits for it.
TEST_F(RunCommandTest, ASlowReaderOfStandardOutputGetsEveryLine) {
  const char* count = std::getenv("PACELINE_FLOOD_LINES");
  const std::string lines = count == nullptr ? "200000" : count;
  testing::write_file(
      folder_ / "script.sh",
      "yes 'a line that is one of very many, which together are more than anybody would keep' | head -n " + lines);
  const std::string command =
      PACELINE_PROGRAM " run --storage-path " + (folder_ / "runs") + " --name flood sh " + (folder_ / "script.sh");
  const Outcome outcome = run_command_line("(" + command + " 2>" + (folder_ / "errors") + " | (sleep 0.5; wc -l))");
  EXPECT_EQ(outcome.output, lines + "\n");
  EXPECT_EQ(run_command_line("cat " + (folder_ / "runs/flood/logs/worker_1.log") + " | wc -l").output, lines + "\n");
  EXPECT_EQ(run_command_line("grep -c 'not shown' " + (folder_ / "errors")).output, "0\n");
}

// The shell holds the pipe, which takes 64 KiB, open and reads nothing.
TEST_F(RunCommandTest, AReaderThatDoesNotReadHoldsUpNoStop) {
  testing::write_file(folder_ / "script.sh", "yes | head -c 100000; echo >" + (folder_ / "printing") + "; sleep 600");
  const std::string command =
      PACELINE_PROGRAM " run --storage-path " + (folder_ / "runs") + " --name stuck sh " + (folder_ / "script.sh");
  const Outcome outcome = run_command_line("(cd " + (folder_ / "") + "; mkfifo out printing; exec 3<>out; " + command +
                                           " >out 2>errors & driver=$!; read line <" + (folder_ / "printing") +
                                           "; kill -TERM $driver; wait $driver; echo ended with $?; cat errors)");
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("ended with 143"), HasSubstr("does not read")));
}

TEST_F(RunCommandTest, ARunGoesOnWhenTheReaderOfItsOutputHasGone) {
  testing::write_file(folder_ / "script.sh", "yes | head -n 200000; touch " + (folder_ / "done"));
  const std::string command =
      PACELINE_PROGRAM " run --storage-path " + (folder_ / "runs") + " sh " + (folder_ / "script.sh");
  const Outcome outcome = run_command_line("(" + command + " 2>/dev/null | head -n 1)");
  EXPECT_EQ(outcome.output, "y\n");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "done"));
}

TEST_F(RunCommandTest, OfABarALogHasTheLastState) {
  const Outcome outcome =
      run("-n 2 -q --name bars", "for i in 1 2 3 4 5; do printf '\\r%s/5 of %s' $i $RANK; done; echo");
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("5/5 of 0\n"), HasSubstr("5/5 of 1\n"), Not(HasSubstr("4/5"))));
  EXPECT_EQ(run_command_line("cat " + (folder_ / "runs/bars/logs/worker_1.log")).output, "5/5 of 0\n");
}

TEST_F(RunCommandTest, OfBarsWithinBarsALogHasTheLastStates) {
  const Outcome outcome =
      run("-n 2 -q --name bars",
          "for i in 0 1 2; do printf '\\router %s/2' $i; for j in 0 1 2; do"
          " printf '\\n\\rinner %s/2' $j; printf '\\033[A'; done; done; printf '\\router 2/2\\n'; echo end");
  EXPECT_THAT(outcome.output, Not(HasSubstr("1/2")));
  EXPECT_EQ(run_command_line("cat " + (folder_ / "runs/bars/logs/worker_1.log")).output, "outer 2/2\nend\n");
}

TEST_F(RunCommandTest, RankZerosBarIsLiveOnATerminal) {
  const std::string seen = folder_ / "seen";
  testing::write_file(folder_ / "script.sh",
                      "printf '\\r1/5 of %s' $RANK\n"
                      "until [ -e " +
                          seen +
                          " ]; do sleep 0.05; done\n"
                          "[ $RANK = 0 ] || echo a line >&2\n"
                          "printf '\\r5/5 of %s\\n' $RANK\n");
  testing::PseudoTerminal terminal(
      {PACELINE_PROGRAM, "run", "-n", "2", "--storage-path", folder_ / "runs", "sh", folder_ / "script.sh"});
  terminal.expect("1/5 of 0");
  testing::write_file(seen, "");
  EXPECT_EQ(terminal.exit_code(), 0);
  EXPECT_THAT(terminal.seen(), AllOf(HasSubstr(" a line\r\n"), HasSubstr(" 5/5 of 0\r\n"), HasSubstr(" 5/5 of 1\r\n"),
                                     Not(HasSubstr("1/5 of 1"))));
}

TEST_F(RunCommandTest, ARankUnderADebuggerHasTheTerminal) {
  if (run_command_line("python3 --version").exit_code != 0) GTEST_SKIP() << "no python";
  testing::write_file(folder_ / "script.py",
                      "import os, sys\n"
                      "rank = os.environ['RANK']\n"
                      "if rank == '1': breakpoint()\n"
                      "print('written by', rank)\n"
                      "sys.exit(4 if rank == '1' else 0)\n");
  testing::PseudoTerminal terminal({PACELINE_PROGRAM, "run", "-n", "2", "--debug-rank", "1", "--storage-path",
                                    folder_ / "runs", folder_ / "script.py"});
  terminal.expect("(Pdb)");
  terminal.type("continue\n");  // from the first line to the breakpoint
  terminal.expect("script.py(4)");
  terminal.type("print('answer', 6 * 7)\n");
  terminal.expect("answer 42");
  terminal.type("continue\n");
  terminal.expect("written by 1");
  EXPECT_EQ(terminal.exit_code(), 4);
  EXPECT_THAT(terminal.seen(), Not(HasSubstr("written by 0")));
}

TEST_F(RunCommandTest, ADebuggerNeedsATerminal) {
  const Outcome outcome = run_command_line("setsid -w " PACELINE_PROGRAM " run --debug-rank 0 true");
  EXPECT_EQ(outcome.exit_code, kFailed);
  EXPECT_THAT(outcome.output, HasSubstr("--debug-rank needs a terminal"));
}

TEST_F(RunCommandTest, ArgumentsAreThePrograms) {
  testing::write_file(folder_ / "script.sh", "printf '<%s>' \"$@\"; echo");
  const Outcome outcome = run_program("run --storage-path " + (folder_ / "runs") + " -- sh " + (folder_ / "script.sh") +
                                      " --help -- show '' 'a b'");
  EXPECT_THAT(outcome.output, HasSubstr("<--help><--><show><><a b>\n"));
}

TEST_F(RunCommandTest, WrongUseAndHelp) {
  const Outcome unknown = run("--nproc-pre-node 2", "");
  EXPECT_EQ(unknown.exit_code, kWrongUse);
  EXPECT_THAT(unknown.output, HasSubstr("--nproc-per-node"));
  const Outcome missing = run_program("run ./no/such/program");
  EXPECT_EQ(missing.exit_code, kFailed);
  EXPECT_THAT(missing.output, HasSubstr("no program ./no/such/program"));
  const Outcome help = run_program("run --help");
  EXPECT_EQ(help.exit_code, kDone);
  EXPECT_THAT(help.output, AllOf(HasSubstr("--nproc-per-node N"), HasSubstr("Examples"), HasSubstr("Exit codes")));
  EXPECT_EQ(run_program("__complete -- run --nproc").output, "--nproc-per-node\n");
}

}  // namespace
}  // namespace paceline::cli
