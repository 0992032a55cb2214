#include "paceline/data/function/forked_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <latch>
#include <thread>

#include "paceline/core/posix/pidfd.h"
#include "paceline/core/posix/socket_pair.h"

namespace paceline::data {
namespace {

using ::testing::HasSubstr;

// A fork server that forks nothing: of each process it says what `forked` gives for the variables.
class FakeForkServer {
 public:
  explicit FakeForkServer(std::function<rpc::Envelope(const rpc::StringMap&)> forked) {
    auto ends = make_socket_pair().ValueOrDie();
    ours = std::move(ends.first);
    socket_ = std::make_shared<rpc::BlockingSocket>(std::move(ends.second));
    thread_ = std::thread([forked = std::move(forked), socket = socket_] {
      while (true) {
        auto message = socket->receive();
        if (!message.ok() || !*message) return;
        if ((*message)->type != ForkFunctionProcess::kType) continue;
        if (!socket->send(forked(rpc::unpack<ForkFunctionProcess>(**message)->variables)).ok()) return;
      }
    });
  }
  ~FakeForkServer() { thread_.join(); }
  void end() { socket_->shut_down(); }

  Descriptor ours;

 private:
  std::shared_ptr<rpc::BlockingSocket> socket_;
  std::thread thread_;
};

arrow::Result<Descriptor> no_other() {
  return arrow::Status::IOError("another server has ended, too");
}

// A process that has ended with `wait_status`.
rpc::Envelope ended(int64_t pid, int wait_status) {
  rpc::Envelope envelope = rpc::pack(FunctionProcessForked{.pid = pid});
  int pipe[2];
  EXPECT_EQ(::pipe(pipe), 0);
  EXPECT_EQ(::write(pipe[1], &wait_status, sizeof wait_status), static_cast<ssize_t>(sizeof wait_status));
  ::close(pipe[1]);
  envelope.descriptors.push_back(make_socket_pair().ValueOrDie().first);
  envelope.descriptors.push_back(open_pidfd(::getpid()).ValueOrDie());
  envelope.descriptors.emplace_back(pipe[0]);
  return envelope;
}

TEST(ForkedProcesses, TellHowAProcessHasEnded) {
  FakeForkServer server(
      [](const rpc::StringMap& variables) { return ended(std::stoll(variables.at("PID")), SIGSEGV); });
  ForkedProcesses processes(std::move(server.ours), no_other);
  const auto process = processes.start({{"PID", "7"}}).ValueOrDie();
  EXPECT_EQ(process->pid(), 7);
  EXPECT_EQ(process->wait()->signal, SIGSEGV);
  EXPECT_EQ(process->wait(), std::nullopt) << "it is told once";
}

TEST(ForkedProcesses, MeasureMemoryOfTheirOwn) {
  FakeForkServer server([](const rpc::StringMap&) { return ended(::getpid(), 0); });
  ForkedProcesses processes(std::move(server.ours), no_other);
  const auto process = processes.start({}).ValueOrDie();
  const int64_t before = process->memory();
  const std::vector<char> more(64 << 20, 'x');
  EXPECT_GE(process->memory() - before, static_cast<int64_t>(more.size()) / 2);
}

TEST(ForkedProcesses, SayWhyThereIsNone) {
  FakeForkServer server([](const rpc::StringMap&) {
    return rpc::pack(FunctionProcessForked{.error = "Resource temporarily unavailable"});
  });
  ForkedProcesses processes(std::move(server.ours), no_other);
  EXPECT_THAT(processes.start({}).status().message(), HasSubstr("Resource temporarily unavailable"));
  processes.end();
  EXPECT_THAT(processes.start({}).status().message(), HasSubstr("has ended"));
}

// What this process writes to standard error goes to a pipe.
class CapturedError {
 public:
  CapturedError() : before_(::dup(STDERR_FILENO)) {
    EXPECT_EQ(::pipe(pipe_), 0);
    ::dup2(pipe_[1], STDERR_FILENO);
    ::close(pipe_[1]);
  }
  ~CapturedError() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    ::close(pipe_[0]);
  }
  std::string line() {
    std::string text;
    for (char next = 0; next != '\n' && ::read(pipe_[0], &next, 1) == 1;) text += next;
    return text;
  }

 private:
  const int before_;
  int pipe_[2];
};

TEST(ForkedProcesses, AServerThatDoesNotAnswerIsToldOf) {
  std::latch is_told(1);
  FakeForkServer server([&](const rpc::StringMap&) {
    is_told.wait();
    return ended(7, 0);
  });
  ForkedProcesses processes(std::move(server.ours), no_other, std::chrono::milliseconds(1));
  CapturedError error;
  auto process = std::async(std::launch::async, [&] { return processes.start({}); });
  const std::string said = error.line();
  is_told.count_down();
  EXPECT_THAT(said, HasSubstr("has not answered for"));
  EXPECT_EQ(process.get().ValueOrDie()->pid(), 7);
}

TEST(ForkedProcesses, AnotherServerTakesThePlaceOfOneThatHasEnded) {
  std::vector<std::unique_ptr<FakeForkServer>> servers;
  const auto begin = [&]() -> arrow::Result<Descriptor> {
    const auto number = static_cast<int64_t>(servers.size());
    servers.push_back(std::make_unique<FakeForkServer>([number](const rpc::StringMap&) { return ended(number, 0); }));
    return std::move(servers.back()->ours);
  };
  ForkedProcesses processes(begin().ValueOrDie(), begin);
  const auto of_first = processes.start({}).ValueOrDie();
  EXPECT_EQ(of_first->pid(), 0);
  servers.front()->end();
  const auto of_second = processes.start({}).ValueOrDie();
  EXPECT_EQ(of_second->pid(), 1);
  EXPECT_EQ(processes.start({}).ValueOrDie()->pid(), 1);
  processes.end();
  EXPECT_THAT(processes.start({}).status().message(), HasSubstr("has ended"));
  EXPECT_EQ(servers.size(), 2u);
}

}  // namespace
}  // namespace paceline::data
