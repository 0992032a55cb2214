// `paceline run` on several nodes, each of which is a process of this machine with a state directory of its own.
#include "paceline/cli/commands/run_nodes.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "paceline/cli/agent_program.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/transport/trust_file.h"

namespace paceline::cli {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryFolder;
using testing::write_file;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A shell that becomes `paceline run`. Ends with the object.
class NodeProcess {
 public:
  NodeProcess(std::string name, const std::string& folder, const std::string& flags, const std::string& before = "")
      : name_(std::move(name)) {
    const std::string directory = folder + "/" + name_;
    std::filesystem::create_directories(directory);
    const std::string command = "cd " + directory + "; " + before + "exec env HOME=" + folder +
                                "/home PACELINE_STATE_DIR=" + folder + "/state_" + name_ + " NODE=" + name_ +
                                " " PACELINE_PROGRAM " run " + flags;
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) ADD_FAILURE() << "no pipe";
    pipe_ = Descriptor(ends[0]);
    const Descriptor its_end(ends[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(its_end.get(), STDOUT_FILENO);
      ::dup2(its_end.get(), STDERR_FILENO);
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
  }
  NodeProcess(const NodeProcess&) = delete;
  ~NodeProcess() {
    signal(SIGKILL);
    exit_code();
  }

  void signal(int signal) const {
    if (pid_ > 0) ::kill(pid_, signal);
  }
  // As a shell tells it; waits for it and all that it has started.
  int exit_code() {
    while (read_more()) {
    }
    int status = 0;
    if (pid_ > 0 && ::waitpid(pid_, &status, 0) == pid_) {
      pid_ = 0;
      exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return exit_code_;
  }
  // As far as it has been waited for.
  const std::string& output() const { return output_; }
  // Waits until it has printed this.
  void expect(const std::string& text) {
    while (output_.find(text) == std::string::npos) {
      if (!read_more()) FAIL() << name_ << " has not printed \"" << text << "\", but:\n" << output_;
    }
  }

 private:
  // False at the end, and when nothing comes for too long.
  bool read_more() {
    constexpr int kPatienceMilliseconds = 60'000;
    pollfd event{pipe_.get(), POLLIN, 0};
    if (::poll(&event, 1, kPatienceMilliseconds) <= 0) return false;
    char part[4096];
    const ssize_t size = ::read(pipe_.get(), part, sizeof part);
    if (size > 0) output_.append(part, static_cast<size_t>(size));
    return size > 0;
  }

  const std::string name_;
  Descriptor pipe_;
  std::string output_;
  pid_t pid_ = 0;
  int exit_code_ = -1;
};

class RunNodesTest : public ::testing::Test {
 protected:
  RunNodesTest() { std::filesystem::create_directories(folder_ / "home"); }

  // A program that node `name` starts; each node has its own.
  std::string script(const std::string& name, const std::string& text) const {
    write_file(folder_ / (name + ".sh"), text);
    return " sh " + (folder_ / (name + ".sh"));
  }
  NodeProcess start(const std::string& name, const std::string& flags, const std::string& program) const {
    return {name, folder_.path(),
            "--storage-path " + (folder_ / ("runs_" + name)) + " --name job --master-port 0 " + flags + program};
  }
  std::string token_file() const { return folder_ / "home/.paceline/rendezvous/127.0.0.1_0.token"; }

  const TemporaryFolder folder_;
};

// Both ends give each other up after a second without a sign of life.
constexpr const char* kShortLease = "--rdzv-conf keep_alive_interval=1,keep_alive_max_attempt=1 ";

std::string node(int64_t rank, int64_t nodes = 2) {
  return "--nnodes " + std::to_string(nodes) + " --node-rank " + std::to_string(rank) + " ";
}

TEST_F(RunNodesTest, RanksOfAllNodesHaveTheirPlacesAndTheirNodesSurroundings) {
  const std::string tell =
      "echo \"$1: $RANK/$WORLD_SIZE local $LOCAL_RANK/$LOCAL_WORLD_SIZE node $GROUP_RANK/$GROUP_WORLD_SIZE\" of $NODE "
      "in "
      "$(basename $PWD), master $MASTER_ADDR, $GLOO_SOCKET_IFNAME\n";
  NodeProcess second = start("two", node(1) + "--nproc-per-node 2", script("a", tell) + " hers");
  second.expect("waiting for the driver to write " + token_file());
  NodeProcess first = start("one", node(0) + "--nproc-per-node 1", script("b", tell) + " his");
  EXPECT_EQ(first.exit_code(), 0) << first.output();
  EXPECT_EQ(second.exit_code(), 0) << second.output();
  const std::string rest = ", master 127.0.0.1, lo\n";
  EXPECT_THAT(first.output(), AllOf(HasSubstr("his: 0/3 local 0/1 node 0/2 of one in one" + rest),
                                    HasSubstr("hers: 1/3 local 0/2 node 1/2 of two in two" + rest),
                                    HasSubstr("hers: 2/3 local 1/2 node 1/2 of two in two" + rest)));
  EXPECT_THAT(second.output(),
              AllOf(HasSubstr("no --master-addr: all nodes are on this machine"), HasSubstr("has joined a run"),
                    HasSubstr("--token-file"), Not(HasSubstr("hers:"))));
  EXPECT_THAT(testing::names_in(folder_ / "runs_one/job/logs"),
              ElementsAre("controller.log", "worker_1.log", "worker_2.log", "worker_3.log"));
  EXPECT_EQ(read(folder_ / "runs_one/job/logs/worker_3.log"), "hers: 2/3 local 1/2 node 1/2 of two in two" + rest);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs_two")) << "the run is the first node's";
  EXPECT_FALSE(std::filesystem::exists(token_file())) << "the secret goes with the run";
  EXPECT_EQ(std::filesystem::status(folder_ / "home/.paceline").permissions(), std::filesystem::perms::owner_all);
}

TEST_F(RunNodesTest, AllNodesEndAsTheRankThatFailedFirst) {
  const std::string program = script("a", "[ $RANK = 1 ] && { echo no such digit; exit 3; }; sleep 600");
  NodeProcess second = start("two", node(1), program);
  NodeProcess first = start("one", node(0), program);
  EXPECT_EQ(first.exit_code(), 3) << first.output();
  EXPECT_EQ(second.exit_code(), 3) << second.output();
  EXPECT_THAT(first.output(), AllOf(HasSubstr("Rank 1 of 2"), HasSubstr("no such digit")));
  EXPECT_THAT(second.output(), HasSubstr("paceline: Rank 1 of 2"));
}

TEST_F(RunNodesTest, WhatAProgramRecordsOfItsErrorIsToldFromEveryNode) {
  const std::string program =
      script("a",
             "[ $RANK = 1 ] || sleep 600\n"
             "echo '{\"message\": {\"message\": \"ValueError: bad sample 7\"}}' >$TORCHELASTIC_ERROR_FILE; exit 9");
  NodeProcess second = start("two", node(1), program);
  NodeProcess first = start("one", node(0), program);
  EXPECT_EQ(first.exit_code(), 9) << first.output();
  EXPECT_THAT(first.output(), HasSubstr("failed with ValueError: bad sample 7"));
}

TEST_F(RunNodesTest, AFileOfAnEarlierRunKeepsNoNodeFromJoining) {
  const auto trust = transport::make_trust().ValueOrDie();
  std::filesystem::create_directories(std::filesystem::path(token_file()).parent_path());
  ASSERT_TRUE(transport::write_trust_file(token_file(),
                                          {.run = "earlier", .addresses = {"127.0.0.1:1"}, .credentials = trust.agent})
                  .ok());
  NodeProcess second = start("two", node(1), script("a", "true"));
  second.expect("the driver does not answer at 127.0.0.1:1 yet");
  NodeProcess first = start("one", node(0), script("a", "true"));
  EXPECT_EQ(first.exit_code(), 0) << first.output();
  EXPECT_EQ(second.exit_code(), 0) << second.output();
}

TEST_F(RunNodesTest, InterruptingAnyNodeStopsTheRunOnAll) {
  const std::string program =
      script("a", "trap 'echo told $RANK; exit 0' INT\necho ready $RANK\nwhile true; do sleep 0.05; done");
  NodeProcess second = start("two", node(1), program);
  NodeProcess first = start("one", node(0), program);
  first.expect("ready 0");
  first.expect("ready 1");
  second.signal(SIGINT);
  EXPECT_EQ(first.exit_code(), 128 + SIGINT) << first.output();
  EXPECT_EQ(second.exit_code(), 128 + SIGINT) << second.output();
  EXPECT_THAT(first.output(), AllOf(HasSubstr("told 0"), HasSubstr("told 1"), HasSubstr("SIGINT on node")));
}

TEST_F(RunNodesTest, ANodeThatIsToldToLeaveMayComeBackWithinTheBudget) {
  const std::string program = script("a",
                                     "trap 'echo told $RANK; exit 0' TERM\n"
                                     "echo start $TORCHELASTIC_RESTART_COUNT of $RANK\n"
                                     "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || while true; do sleep 0.05; done");
  NodeProcess first = start("one", node(0) + "--max-restarts 1", program);
  NodeProcess second = start("two", node(1), program);
  first.expect("start 0 of 0");
  first.expect("start 0 of 1");
  second.signal(SIGTERM);
  EXPECT_EQ(second.exit_code(), 128 + SIGTERM) << second.output();
  first.expect("told 1");
  NodeProcess again = start("again", node(1), program);
  EXPECT_EQ(first.exit_code(), 0) << first.output();
  EXPECT_EQ(again.exit_code(), 0) << again.output();
  EXPECT_THAT(first.output(), AllOf(HasSubstr("start 1 of 0"), HasSubstr("start 1 of 1")));
}

TEST_F(RunNodesTest, ANodeThatIsKilledEndsTheRunAndTheOthersHearOfIt) {
  const std::string program = script("a", "echo start $RANK; sleep 600");
  NodeProcess first = start("one", node(0, 3) + kShortLease, program);
  NodeProcess second = start("two", node(1, 3), program);
  NodeProcess third = start("three", node(2, 3), program);
  for (const char* rank : {"0", "1", "2"}) first.expect(std::string("start ") + rank);
  second.signal(SIGKILL);
  EXPECT_EQ(first.exit_code(), kTryAgain) << first.output();
  EXPECT_EQ(third.exit_code(), kTryAgain) << third.output();
  EXPECT_THAT(first.output(), AllOf(HasSubstr("is lost"), HasSubstr("--max-restarts is 0")));
  EXPECT_THAT(third.output(), HasSubstr("is lost"));
}

TEST_F(RunNodesTest, WithoutTheFirstNodeTheOthersEndAndSaySo) {
  const std::string program = script("a", "echo start $RANK; sleep 600");
  NodeProcess first = start("one", node(0) + kShortLease, program);
  NodeProcess second = start("two", node(1), program);
  first.expect("start 1");
  first.signal(SIGKILL);
  EXPECT_EQ(second.exit_code(), kTryAgain) << second.output();
  NodeProcess alone = start("alone", node(1) + "--rdzv-conf join_timeout=1", program);
  EXPECT_EQ(alone.exit_code(), kTryAgain);
  EXPECT_THAT(alone.output(), AnyOf(HasSubstr("was not reached"), HasSubstr("did not write")));
}

TEST_F(RunNodesTest, NodesThatMeetAtAnEndpointNeedNoRank) {
  const std::string flags = "--nnodes 2 --rdzv-backend c10d --rdzv-id my/job --rdzv-endpoint localhost:0";
  const std::string program = script("a", "echo $RANK of $WORLD_SIZE on $NODE in $TORCHELASTIC_RUN_ID");
  NodeProcess one = start("one", flags, program);
  NodeProcess two = start("two", flags, program);
  EXPECT_EQ(one.exit_code(), 0) << one.output();
  EXPECT_EQ(two.exit_code(), 0) << two.output();
  const std::string output = one.output() + two.output();
  EXPECT_THAT(output, AnyOf(AllOf(HasSubstr("0 of 2 on one in my/job\n"), HasSubstr("1 of 2 on two in my/job\n")),
                            AllOf(HasSubstr("0 of 2 on two in my/job\n"), HasSubstr("1 of 2 on one in my/job\n"))));
  EXPECT_THAT(output, HasSubstr(folder_ / "home/.paceline/rendezvous/my_job.token"));
}

TEST_F(RunNodesTest, OfARangeThoseThatComeInTimeAreEnough) {
  NodeProcess first = start("one", "--nnodes 1:2 --rdzv-conf last_call_timeout=1", script("a", "echo of $WORLD_SIZE"));
  EXPECT_EQ(first.exit_code(), 0) << first.output();
  EXPECT_THAT(first.output(), AllOf(HasSubstr("1 of at most 2 nodes are there; waiting 1 s"), HasSubstr("of 1\n")));
}

TEST_F(RunNodesTest, AFileElsewhereIsNamedByAFlag) {
  const std::string flags = "--token-file " + (folder_ / "secret") + " ";
  NodeProcess second = start("two", node(1) + flags, script("a", "true"));
  second.expect("waiting for the driver to write " + (folder_ / "secret"));
  NodeProcess first = start("one", node(0) + flags, script("a", "true"));
  EXPECT_EQ(first.exit_code(), 0) << first.output();
  EXPECT_EQ(second.exit_code(), 0) << second.output();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "home/.paceline"));
}

TEST_F(RunNodesTest, WhoWaitsEndsWithItsSignal) {
  NodeProcess second = start("two", node(1), script("a", "true"));
  second.expect("waiting for the driver");
  second.signal(SIGTERM);
  EXPECT_EQ(second.exit_code(), 128 + SIGTERM);
}

TEST_F(RunNodesTest, UnderNohupAClosedTerminalEndsNoNode) {
  NodeProcess second("two", folder_.path(), node(1) + script("a", "true"), "trap '' HUP; ");
  second.expect("waiting for the driver");
  second.signal(SIGHUP);
  second.signal(SIGTERM);
  EXPECT_EQ(second.exit_code(), 128 + SIGTERM);
}

TEST(RunNodes, TheTokenFileIsNamedAfterTheRunOrItsAddress) {
  RunFlags flags;
  flags.nodes = {.host = "fd00::1", .port = 29500};
  EXPECT_EQ(default_token_file(flags, "/home/me"), "/home/me/.paceline/rendezvous/fd00__1_29500.token");
  flags.run_id = "../job 7";
  EXPECT_EQ(default_token_file(flags, "/home/me"), "/home/me/.paceline/rendezvous/.._job_7.token");
}

}  // namespace
}  // namespace paceline::cli
