#include "paceline/data/function/forked_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
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
    thread_ = std::thread(
        [forked = std::move(forked), socket = std::make_shared<rpc::BlockingSocket>(std::move(ends.second))] {
          while (true) {
            auto message = socket->receive();
            if (!message.ok() || !*message) return;
            if ((*message)->type != ForkFunctionProcess::kType) continue;
            if (!socket->send(forked(rpc::unpack<ForkFunctionProcess>(**message)->variables)).ok()) return;
          }
        });
  }
  ~FakeForkServer() { thread_.join(); }

  Descriptor ours;

 private:
  std::thread thread_;
};

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
  ForkedProcesses processes(std::move(server.ours));
  const auto process = processes.start({{"PID", "7"}}).ValueOrDie();
  EXPECT_EQ(process->pid(), 7);
  EXPECT_EQ(process->wait()->signal, SIGSEGV);
  EXPECT_EQ(process->wait(), std::nullopt) << "it is told once";
}

TEST(ForkedProcesses, MeasureMemoryOfTheirOwn) {
  FakeForkServer server([](const rpc::StringMap&) { return ended(::getpid(), 0); });
  ForkedProcesses processes(std::move(server.ours));
  const auto process = processes.start({}).ValueOrDie();
  const int64_t before = process->memory();
  const std::vector<char> more(64 << 20, 'x');
  EXPECT_GE(process->memory() - before, static_cast<int64_t>(more.size()) / 2);
}

TEST(ForkedProcesses, SayWhyThereIsNone) {
  FakeForkServer server([](const rpc::StringMap&) {
    return rpc::pack(FunctionProcessForked{.error = "Resource temporarily unavailable"});
  });
  ForkedProcesses processes(std::move(server.ours));
  EXPECT_THAT(processes.start({}).status().message(), HasSubstr("Resource temporarily unavailable"));
  processes.end();
  EXPECT_THAT(processes.start({}).status().message(), HasSubstr("has ended"));
}

}  // namespace
}  // namespace paceline::data
