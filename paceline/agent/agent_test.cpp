#include "paceline/agent/agent.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <optional>
#include <sstream>

#include "paceline/agent/fake_controller.h"
#include "paceline/core/node_sample.h"
#include "paceline/core/posix/sealed_memory.h"
#include "paceline/rpc/memory_channel.h"
#include "paceline/rpc/sample_messages.h"

namespace paceline::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class AgentTest : public ProcessFixture {
 protected:
  virtual AgentOptions options() const { return {.node = "here", .last_lines = 3, .failing_patience_s = 1}; }

  void SetUp() override {
    ProcessFixture::SetUp();
    folder_ = std::filesystem::path(testing::TempDir()) / ("agent_test_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    guardian_.emplace(Guardian::fork_now().ValueOrDie());
    auto [controller_end, agent_end] = rpc::make_memory_channels();
    agent_ = start_agent(std::move(agent_end), *guardian_, options()).ValueOrDie();
    controller_.emplace(std::move(controller_end));
  }

  void TearDown() override {
    agent_.reset();
    controller_.reset();
    guardian_.reset();
    std::filesystem::remove_all(folder_);
    ProcessFixture::TearDown();
  }

  std::string log_file() const { return folder_ / "worker.log"; }
  std::string log() const {
    std::ifstream file(log_file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  ProcessEnd wait_for_exit(int64_t worker) { return controller_->wait_for<rpc::ProcessExited>(worker).end; }

  std::filesystem::path folder_;
  std::optional<Guardian> guardian_;
  std::unique_ptr<Agent> agent_;
  std::optional<FakeController> controller_;
};

TEST_F(AgentTest, AnnouncesItsNode) {
  const auto node = controller_->wait_for<rpc::NodeReady>(0);
  EXPECT_EQ(node.node, "here");
  EXPECT_FALSE(node.host.empty());
  EXPECT_EQ(node.pid, ::getpid());
  EXPECT_GE(node.cores, 1);
}

TEST_F(AgentTest, ReportsHowProcessesEnd) {
  controller_->start(1, {"exit", "3"});
  controller_->start(2, {"signal", std::to_string(SIGSEGV)});
  controller_->start(3, {"signal", std::to_string(SIGKILL)});
  EXPECT_EQ(wait_for_exit(1).status, ExitStatus{.exit_code = 3});
  EXPECT_EQ(wait_for_exit(2).status.signal, SIGSEGV);
  EXPECT_EQ(wait_for_exit(3).status, ExitStatus{.signal = SIGKILL});
  EXPECT_THAT(controller_->types(1), ElementsAre("process_started", "process_exited"));
}

TEST_F(AgentTest, SaysWhyAProcessCannotStart) {
  controller_->send(1, rpc::StartProcess{.arguments = {"/no/such/program"}});
  EXPECT_THAT(controller_->wait_for<rpc::ProcessStartFailed>(1).error, HasSubstr("/no/such/program: No such file"));
  controller_->start(2, {"exit", "0"}, {.log_file = "/no/such/folder/worker.log"});
  EXPECT_THAT(controller_->wait_for<rpc::ProcessStartFailed>(2).error, HasSubstr("/no/such/folder/worker.log"));
  controller_->start(3, {"wait"});
  controller_->wait_for<rpc::ProcessStarted>(3);
  controller_->start(3, {"wait"});
  EXPECT_THAT(controller_->wait_for<rpc::ProcessStartFailed>(3).error, HasSubstr("already"));
}

TEST_F(AgentTest, WritesAndForwardsWholeLinesInOrder) {
  controller_->start(1, {"print", "one", "two", "", "four", "!five"}, {.log_file = log_file()});
  const auto exited = wait_for_exit(1);
  EXPECT_THAT(controller_->lines(1), ElementsAre("one", "two", "", "four"));
  EXPECT_THAT(controller_->lines(1, "stderr"), ElementsAre("five"));
  EXPECT_THAT(log(), testing::AnyOf("one\ntwo\n\nfour\nfive\n", "five\none\ntwo\n\nfour\n"));
  EXPECT_THAT(exited.last_lines, SizeIs(3));
  EXPECT_EQ(exited.log_file, log_file());
}

TEST_F(AgentTest, KeepsAnUnfinishedLastLineAndBytesThatAreNoText) {
  controller_->start(1, {"write", "first ", "line\nbytes ~", "no end"}, {.log_file = log_file()});
  EXPECT_THAT(wait_for_exit(1).last_lines, ElementsAre("first line", "bytes \xffno end"));
  EXPECT_EQ(log(), "first line\nbytes \xffno end\n");
}

TEST_F(AgentTest, AllOutputComesBeforeTheEnd) {
  controller_->start(1, {"spam", "20000"}, {.log_file = log_file()});
  const auto exited = wait_for_exit(1);
  const auto lines = controller_->lines(1);
  ASSERT_THAT(lines, SizeIs(20000));
  for (size_t i = 0; i < lines.size(); ++i)
    ASSERT_THAT(lines[i], testing::StartsWith("line " + std::to_string(i) + "."));
  EXPECT_THAT(exited.last_lines, ElementsAre(lines[19997], lines[19998], lines[19999]));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), ""), 0);
  EXPECT_EQ(controller_->types(1).back(), "process_exited");
}

TEST_F(AgentTest, AllMessagesComeBeforeTheEndAndSpeakForTheirProcess) {
  controller_->start(1, {"messages", "500"});
  wait_for_exit(1);
  const auto types = controller_->types(1);
  ASSERT_THAT(types, SizeIs(1 + 1 + 500 + 1 + 1));
  EXPECT_EQ(types[1], "joined");
  EXPECT_EQ(types[502], "finished");
  EXPECT_EQ(types[503], "process_exited");
  EXPECT_EQ(controller_->wait(1, "report").bytes.size(), 1000u);
  EXPECT_THAT(controller_->types(99), ElementsAre());
}

TEST_F(AgentTest, PassesMessagesToTheProcessAfterItsWelcome) {
  controller_->start(1, {"echo"}, {.welcome = {{"run_name", "test"}}});
  controller_->send(1, rpc::Assign{.world_size = 4});  // before it can have started
  const rpc::Envelope& first = controller_->wait(1, "echo");
  EXPECT_EQ(first.body["was"], "welcome");
  EXPECT_EQ(first.body["run_name"], "test");
  controller_->send(1, rpc::EndProcess{.grace_s = 60});
  EXPECT_EQ(wait_for_exit(1).status, ExitStatus{});
  EXPECT_THAT(controller_->types(1), ElementsAre("process_started", "echo", "echo", "process_exited"));
}

TEST_F(AgentTest, TheRunsAttachmentComesWithEveryWelcome) {
  rpc::Envelope attachment = rpc::pack(rpc::Attachment{});
  attachment.descriptors.push_back(SealedMemory::create("test", {"opaque"}).ValueOrDie());
  controller_->send(std::move(attachment));
  for (const int64_t worker : {1, 2}) {
    controller_->start(worker, {"echo"});
    const rpc::Envelope& echo = controller_->wait(worker, "echo");
    ASSERT_THAT(echo.descriptors, SizeIs(1));
    EXPECT_EQ(SealedMemory::open(echo.descriptors[0])->bytes(), "opaque");
    controller_->send(worker, rpc::EndProcess{.grace_s = 60});
    wait_for_exit(worker);
  }
}

TEST_F(AgentTest, StopsGracefullyThenKillsTheTree) {
  controller_->start(1, {"daemon", "1"});
  const auto daemon = pidfd_of(controller_->wait_for_line(1, "ready").at(0));
  controller_->send(1, rpc::EndProcess{.grace_s = 3600});
  EXPECT_EQ(wait_for_exit(1).status, ExitStatus{});
  EXPECT_TRUE(has_ended(daemon));

  controller_->start(2, {"sleep"});
  controller_->wait_for_line(2, "ready");
  controller_->send(2, rpc::EndProcess{.grace_s = 0.01});
  EXPECT_EQ(wait_for_exit(2).status, (ExitStatus{.signal = SIGKILL, .ended_by_paceline = true}));

  // The nearer of two deadlines holds.
  controller_->start(3, {"sleep"});
  controller_->send(3, rpc::EndProcess{.grace_s = 3600});
  controller_->send(3, rpc::EndProcess{.grace_s = 0.01});
  controller_->send(3, rpc::EndProcess{.grace_s = 3600});
  wait_for_exit(3);
}

TEST_F(AgentTest, AProcessThatIsFailingMaySayWhy) {
  controller_->start(1, {"fail", "200"});
  controller_->wait_for_line(1, "ready");
  controller_->send(1, rpc::EndProcess{.grace_s = 0.01});
  EXPECT_EQ(controller_->wait_for<rpc::Failed>(1).text, "slow");
  EXPECT_EQ(wait_for_exit(1).status, ExitStatus{.exit_code = 1});

  controller_->start(2, {"fail", "3600000"});
  controller_->wait_for_line(2, "ready");
  controller_->send(2, rpc::EndProcess{.grace_s = 0.01});
  EXPECT_EQ(wait_for_exit(2).status.signal, SIGKILL);
}

TEST_F(AgentTest, EndsAProcessThatHasHardlyStarted) {
  for (int64_t worker = 1; worker <= 10; ++worker) {
    controller_->start(worker, {"exit", "0"});
    controller_->send(worker, rpc::EndProcess{});
  }
  for (int64_t worker = 1; worker <= 10; ++worker) {
    wait_for_exit(worker);
    controller_->send(worker, rpc::EndProcess{});  // one that is gone: nothing happens
    EXPECT_THAT(controller_->types(worker), ElementsAre("process_started", "process_exited"));
  }
}

TEST_F(AgentTest, StartsAndEndsManyProcesses) {
  for (int64_t worker = 1; worker <= 50; ++worker) {
    controller_->start(worker, {"echo"}, {.welcome = {{"number", worker}}});
  }
  for (int64_t worker = 1; worker <= 50; ++worker) {
    EXPECT_EQ(controller_->wait(worker, "echo").body["number"], worker);
    controller_->send(worker, rpc::Stop{});
  }
  for (int64_t worker = 1; worker <= 50; ++worker) EXPECT_EQ(wait_for_exit(worker).status, ExitStatus{});
}

TEST_F(AgentTest, RaisesTheLimitOfOpenFilesForManyProcesses) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  for (int64_t worker = 1; worker <= 30; ++worker) controller_->start(worker, {"wait"});
  for (int64_t worker = 1; worker <= 30; ++worker) controller_->wait_for<rpc::ProcessStarted>(worker);
  for (int64_t worker = 1; worker <= 30; ++worker) controller_->send(worker, rpc::EndProcess{.grace_s = 60});
  for (int64_t worker = 1; worker <= 30; ++worker) EXPECT_EQ(wait_for_exit(worker).status, ExitStatus{});
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(AgentTest, TellsWhereAProcessWasWhenItEnded) {
  controller_->start(1, {"progress", std::to_string(SIGKILL)});
  const auto exited = wait_for_exit(1);
  EXPECT_EQ(exited.step, 7);
  EXPECT_EQ(exited.phase, Phase::collective);
  EXPECT_THAT(controller_->types(1), ElementsAre("process_started", "joined", "process_exited"));
}

TEST_F(AgentTest, ReportsSilenceOfAStoppedProcessOnce) {
  controller_->start(1, {"progress", std::to_string(SIGSTOP)}, {.heartbeat_timeout_s = 0.3});
  const auto silent = controller_->wait_for<rpc::ProcessSilent>(1);
  EXPECT_TRUE(silent.stopped);
  EXPECT_EQ(silent.silent_s, 0.3);
  EXPECT_EQ(silent.step, 7);
  EXPECT_EQ(silent.phase, Phase::collective);
  controller_->send(1, rpc::EndProcess{});
  EXPECT_EQ(wait_for_exit(1).status.signal, SIGKILL);
  EXPECT_THAT(controller_->types(1), ElementsAre("process_started", "joined", "process_silent", "process_exited"));
}

TEST_F(AgentTest, DestructionEndsEveryTree) {
  controller_->start(1, {"daemon", "2"});
  const auto before = controller_->wait_for_line(1, "ready");
  const auto first = pidfd_of(before.at(0));
  const auto second = pidfd_of(before.at(1));
  controller_->start(2, {"sleep"});  // may not have started yet
  agent_.reset();
  EXPECT_TRUE(has_ended(first));
  EXPECT_TRUE(has_ended(second));
  EXPECT_EQ(wait_for_exit(1).status.signal, SIGKILL);
}

TEST_F(AgentTest, AControllerThatGoesAwayTakesAllWithIt) {
  controller_->start(1, {"daemon", "1"});
  const auto daemon = pidfd_of(controller_->wait_for_line(1, "ready").at(0));
  controller_->close();
  pollfd event{daemon.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&event, 1, std::chrono::milliseconds(kDeadline).count()), 1);
}

TEST_F(AgentTest, ProcessesEndWhenTheGuardianIsKilled) {
  controller_->start(1, {"sleep"});
  controller_->wait_for_line(1, "ready");
  ::kill(guardian_->pid(), SIGKILL);
  EXPECT_THAT(controller_->wait_for<rpc::NodeFailed>(0).error,
              HasSubstr("the guardian, which starts the workers, has ended; start the program again"));
  EXPECT_EQ(wait_for_exit(1).status.signal, SIGKILL);
  EXPECT_EQ(controller_->types(1).back(), "process_exited");
  controller_->start(2, {"exit", "0"});
  EXPECT_THAT(controller_->wait_for<rpc::ProcessStartFailed>(2).error, HasSubstr("the guardian"));
  agent_.reset();
  // The process has become this test's child.
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
}

// With a guardian that is stopped, as by a debugger, or by somebody who stops every process of a user.
class StoppedGuardianTest : public AgentTest {
 protected:
  AgentOptions options() const override { return {.kill_patience_s = 0.2}; }
  void TearDown() override {
    ::kill(guardian_->pid(), SIGCONT);
    AgentTest::TearDown();
  }
};

TEST_F(StoppedGuardianTest, TheAgentKillsByItself) {
  controller_->start(1, {"sleep"});
  controller_->wait_for_line(1, "ready");
  ::kill(guardian_->pid(), SIGSTOP);
  controller_->send(1, rpc::EndProcess{});
  EXPECT_EQ(wait_for_exit(1).status, (ExitStatus{.signal = SIGKILL, .ended_by_paceline = true}));
}

TEST_F(StoppedGuardianTest, DestructionOfTheAgentReturnsAndNothingRunsOn) {
  controller_->start(1, {"sleep"});
  controller_->wait_for_line(1, "ready");
  const auto process = open_pidfd(static_cast<pid_t>(controller_->wait_for<rpc::ProcessStarted>(1).pid)).ValueOrDie();
  ::kill(guardian_->pid(), SIGSTOP);
  controller_->start(2, {"sleep"});  // is never started: it cannot be reported as ended either
  agent_.reset();
  EXPECT_TRUE(has_ended(process));
}

class SamplingAgentTest : public AgentTest {
 protected:
  AgentOptions options() const override { return {.node = "here", .sample_interval_ms = 1}; }

  // The samples of the message with that number, which it takes.
  std::vector<NodeSample> take(size_t number) {
    const rpc::Envelope& message = controller_->wait(0, rpc::NodeSampled::kType, number);
    rpc::Envelope taken = rpc::pack(rpc::SamplesTaken{});
    taken.reply_to = message.request;
    controller_->send(std::move(taken));
    std::vector<NodeSample> samples;
    std::istringstream lines(message.bytes);
    for (std::string line; std::getline(lines, line);) samples.push_back(Json::parse(line).get<NodeSample>());
    return samples;
  }
};

TEST_F(SamplingAgentTest, SamplesItsNodeAndProcesses) {
  controller_->start(1, {"sleep"}, {.welcome = {{"role", "worker"}}});
  const int64_t pid = controller_->wait_for<rpc::ProcessStarted>(1).pid;
  const auto is_worker = [](const ProcessSample& process) { return process.worker == 1; };
  std::optional<ProcessSample> found;
  size_t samples = 0;
  for (size_t number = 1; !found; ++number) {
    for (const NodeSample& sample : take(number)) {
      ++samples;
      EXPECT_GT(sample.memory_total_bytes.value_or(0), 0);
      EXPECT_EQ(sample.processes.at(0).role, "driver");
      const auto process = std::ranges::find_if(sample.processes, is_worker);
      if (process != sample.processes.end()) found = *process;
    }
  }
  EXPECT_EQ(found->pid, pid);
  EXPECT_EQ(found->role, "worker");
  EXPECT_GE(samples, 1u);
}

TEST_F(AgentTest, AnotherAgentFollows) {
  controller_->start(1, {"exit", "0"});
  wait_for_exit(1);
  agent_.reset();
  auto [controller_end, agent_end] = rpc::make_memory_channels();
  agent_ = start_agent(std::move(agent_end), *guardian_).ValueOrDie();
  controller_.emplace(std::move(controller_end));
  controller_->start(1, {"exit", "4"});
  EXPECT_EQ(wait_for_exit(1).status.exit_code, 4);
}

}  // namespace
}  // namespace paceline::agent
