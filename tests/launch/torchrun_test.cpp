// Programs as they are written for torchrun, started by `paceline run` and by torchrun: the same comes out.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "paceline/cli/program_fixture.h"
#include "paceline/testing/pseudo_terminal.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline {
namespace {

using cli::Outcome;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class TorchrunTest : public ::testing::Test {
 protected:
  // As in an activated virtual environment.
  Outcome paceline_run(const std::string& words) {
    return cli::run_command_line("PATH=" PYTHON_FOLDER ":$PATH " PACELINE_PROGRAM " run -q --storage-path " +
                                 (folder_ / "runs") + " " + words);
  }
  static Outcome torchrun(const std::string& words) {
    return cli::run_command_line("OMP_NUM_THREADS=1 " PYTHON_FOLDER "/torchrun " + words + " 2>/dev/null");
  }

  // The words behind `first` in each line that begins with it.
  static std::vector<std::string> lines_of(const Outcome& outcome, const std::string& first) {
    std::istringstream text(outcome.output);
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with(first)) lines.push_back(line.substr(first.size()));
    }
    return lines;
  }

  testing::TemporaryFolder folder_;
  const std::string ddp_ = SOURCE_FOLDER "/ddp.py";
};

TEST_F(TorchrunTest, PythonTrainsAsUnderTorchrun) {
  const Outcome theirs = torchrun("--nproc-per-node 2 " + ddp_);
  ASSERT_EQ(theirs.exit_code, 0) << theirs.output;
  const Outcome ours = paceline_run("--nproc_per_node 2 " + ddp_ + " --listening");
  EXPECT_EQ(ours.exit_code, 0) << ours.output;
  EXPECT_THAT(lines_of(theirs, "result "), SizeIs(1));
  EXPECT_EQ(lines_of(ours, "result "), lines_of(theirs, "result "));
  const std::vector<std::string> addresses = lines_of(ours, "listening ");
  EXPECT_THAT(addresses, SizeIs(2));
  for (const std::string& of_rank : addresses) {
    std::istringstream words(of_rank);
    EXPECT_THAT(std::vector<std::string>(std::istream_iterator<std::string>(words), {}), Each("0100007F")) << of_rank;
  }
}

TEST_F(TorchrunTest, APythonProgramMayLeaveItsGroupBehind) {
  const Outcome outcome = paceline_run("-n 2 " + ddp_ + " --leave");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(lines_of(outcome, "result "), SizeIs(1));
}

TEST_F(TorchrunTest, TheUsersOwnStartUpFileIsReadToo) {
  testing::write_file(folder_ / "mine/sitecustomize.py", "import builtins; builtins.mine = 'read'\n");
  testing::write_file(folder_ / "show.py",
                      "import sys\n"
                      "print('mine', mine, 'torch' in sys.modules, sum('python/start' in p for p in sys.path))\n");
  ::setenv("PYTHONPATH", (folder_ / "mine").c_str(), 1);
  const Outcome outcome = paceline_run(folder_ / "show.py");
  ::unsetenv("PYTHONPATH");
  EXPECT_THAT(outcome.output, HasSubstr("mine read False 0\n"));
}

TEST_F(TorchrunTest, ARestartTrainsOn) {
  testing::write_file(folder_ / "train.py",
                      "import os, signal, torch, torch.distributed as dist\n"
                      "dist.init_process_group('gloo')\n"
                      "if dist.get_rank() == 1 and os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
                      "    os.kill(os.getpid(), signal.SIGKILL)\n"
                      "total = torch.ones(1)\n"
                      "dist.all_reduce(total)\n"
                      "print('total', total.item())\n"
                      "dist.destroy_process_group()\n");
  const Outcome outcome = paceline_run("-n 2 --max-restarts 1 " + (folder_ / "train.py"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(lines_of(outcome, "total "), ::testing::ElementsAre("2.0", "2.0"));
}

TEST_F(TorchrunTest, ACppProgramRunsUnchanged) {
  const std::string words = "--nproc-per-node 2 --no-python " C10D_PROGRAM;
  const Outcome ours = paceline_run(words);
  EXPECT_EQ(ours.exit_code, 0) << ours.output;
  EXPECT_EQ(lines_of(ours, "sum "), std::vector<std::string>{"30 of 2 ranks"});
  const Outcome failed = paceline_run("-n 2 " C10D_PROGRAM " --fail");
  EXPECT_EQ(failed.exit_code, 5);
  EXPECT_THAT(failed.output, AllOf(HasSubstr("Rank 1 of 2"), HasSubstr("exited with code 5")));
  const Outcome theirs = torchrun(words);
  ASSERT_EQ(theirs.exit_code, 0) << theirs.output;
  EXPECT_EQ(lines_of(theirs, "sum "), lines_of(ours, "sum "));
}

TEST_F(TorchrunTest, AProgramThatCallsFitIsStartedOnceAsTheDriver) {
  const Outcome outcome = paceline_run("-n 1 --name other " DRIVER_PROGRAM " world_size " + (folder_ / "own") + " own");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("world size 1\n"), HasSubstr("state finished\n")));
  EXPECT_THAT(lines_of(outcome, "folder "), ::testing::ElementsAre(folder_ / "runs/other"));
}

TEST_F(TorchrunTest, AFlagThatADriverDoesNotHearIsNamed) {
  const Outcome outcome = cli::run_command_line(
      PACELINE_PROGRAM " run -n 1 --shutdown-timeout 7 " DRIVER_PROGRAM " world_size " + (folder_ / "own") + " own");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("--shutdown-timeout 7 has no effect on a program that calls fit()"));
}

TEST_F(TorchrunTest, ARankOfADriverStandsInTheDebuggerBeforeItsTrainLoop) {
  testing::PseudoTerminal terminal(
      {PACELINE_PROGRAM, "run", "-n", "2", "--debug-rank", "1", DRIVER_PROGRAM, "world_size", folder_.path(), "run"});
  terminal.expect("(gdb)");
  EXPECT_THAT(terminal.seen(), Not(HasSubstr("(rank 1) world size")));
  terminal.type("continue\n");
  terminal.expect("(rank 1) world size 2");
  terminal.expect("state finished");  // gdb goes with the worker
  EXPECT_EQ(terminal.exit_code(), 0);
}

}  // namespace
}  // namespace paceline
