// Workers that the guardian forks from itself: they go on in the test that has forked the guardian.
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <future>
#include <optional>
#include <thread>

#include "paceline/agent/guardian.h"
#include "paceline/agent/guardian_messages.h"
#include "paceline/agent/process_actions.h"
#include "paceline/agent/process_fixture.h"
#include "paceline/core/posix/socket_pair.h"
#include "paceline/rpc/blocking_socket.h"

namespace paceline::agent {
namespace {

using ::testing::HasSubstr;

class ForkedWorkerTest : public ProcessFixture {
 protected:
  void TearDown() override {
    socket_.reset();
    guardian_.reset();
    ProcessFixture::TearDown();
  }

  // A worker does what DO says.
  void fork_guardian() {
    guardian_ = Guardian::fork_with_workers().ValueOrDie();
    if (!guardian_) ::_exit(act_as_told());
    socket_.emplace(guardian_->connect().ValueOrDie());
  }
  void start(int64_t worker, const std::string& what, bool fork = true, const std::string& directory = "") {
    Spawn request{.arguments = {program_beside_test("agent_test_process")},
                  .environment = {{"DO", what}, {"NAME", "value"}},
                  .directory = directory,
                  .fork = fork};
    request.arguments.push_back(what);
    must(socket_->send(rpc::pack(request, {.worker = WorkerId{worker}})));
  }
  rpc::Envelope receive() { return std::move(socket_->receive().ValueOrDie()).value(); }
  template <class Message>
  Message receive() {
    return rpc::unpack<Message>(receive()).ValueOrDie();
  }
  static std::string read_line(const Descriptor& pipe) {
    std::string line;
    for (char c; ::read(pipe.get(), &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
  // All that the process says of itself until it ends.
  std::vector<std::string> description() {
    const rpc::Envelope spawned = receive();
    std::vector<std::string> lines;
    if (spawned.descriptors.size() == 4) {
      for (std::string line = read_line(spawned.descriptors[1]); !line.empty();
           line = read_line(spawned.descriptors[1])) {
        if (!line.starts_with("environment PACELINE_PROCESS=")) lines.push_back(line);  // it says which one this is
      }
    }
    receive<Exited>();
    return lines;
  }

  std::optional<Guardian> guardian_;
  std::optional<rpc::BlockingSocket> socket_;
};

TEST_F(ForkedWorkerTest, IsLikeOneThatWasExecuted) {
  const auto of_the_driver = make_socket_pair().ValueOrDie();
  fork_guardian();
  start(1, "sleep");
  const rpc::Envelope other = receive();
  start(2, "describe", /*fork=*/false, "/");
  const std::vector<std::string> executed = description();
  start(3, "describe", /*fork=*/true, "/");
  EXPECT_EQ(description(), executed);
  EXPECT_THAT(executed, ::testing::Contains("descriptors 0 1 2 3 "));
  EXPECT_FALSE(has_ended(other.descriptors.at(0)));
}

TEST_F(ForkedWorkerTest, GoesOnWithWhatTheProgramHad) {
  std::signal(SIGUSR1, SIG_IGN);  // what the program itself has set up: it would do so again when it is executed
  sigset_t own;
  ::sigemptyset(&own);
  ::sigaddset(&own, SIGUSR2);
  ::sigprocmask(SIG_BLOCK, &own, nullptr);
  fork_guardian();
  std::signal(SIGUSR1, SIG_DFL);
  ::sigprocmask(SIG_UNBLOCK, &own, nullptr);
  start(1, "describe");
  const std::vector<std::string> lines = description();
  EXPECT_THAT(lines, ::testing::Contains("ignored " + std::to_string(SIGUSR1)));
  EXPECT_THAT(lines, ::testing::Contains("blocked " + std::to_string(SIGUSR2)));
  EXPECT_THAT(lines, ::testing::Not(::testing::Contains("ignored " + std::to_string(SIGINT))));
  EXPECT_THAT(lines, ::testing::Not(::testing::Contains("blocked " + std::to_string(SIGCHLD))));
}

TEST_F(ForkedWorkerTest, EndsAreReportedAndNamesAreTheProgramsOwn) {
  fork_guardian();
  start(1, "exit 3");
  receive<Spawned>();
  EXPECT_EQ(receive<Exited>().status, ExitStatus{.exit_code = 3});
  start(2, "signal " + std::to_string(SIGTERM));
  receive<Spawned>();
  EXPECT_EQ(receive<Exited>().status, ExitStatus{.signal = SIGTERM});
  start(3, "sleep");
  const rpc::Envelope spawned = receive();
  EXPECT_EQ(read_line(spawned.descriptors.at(1)), "ready");
  const auto name_of = [](pid_t pid) {
    std::string name;
    std::ifstream("/proc/" + std::to_string(pid) + "/comm") >> name;
    return name;
  };
  EXPECT_EQ(name_of(static_cast<pid_t>(rpc::unpack<Spawned>(spawned).ValueOrDie().pid)), name_of(::getpid()));
  EXPECT_EQ(name_of(guardian_->pid()), "paceline-guard");
}

TEST_F(ForkedWorkerTest, IsKilledWithItsTree) {
  fork_guardian();
  start(1, "daemon 2");
  const rpc::Envelope spawned = receive();
  const Descriptor daemon = pidfd_of(read_line(spawned.descriptors.at(1)));
  must(socket_->send(rpc::pack(KillTree{}, {.worker = WorkerId{1}})));
  EXPECT_EQ(receive<Exited>().status, (ExitStatus{.signal = SIGKILL, .ended_by_paceline = true}));
  EXPECT_TRUE(has_ended(daemon));
}

TEST_F(ForkedWorkerTest, EndsWithTheGuardian) {
  fork_guardian();
  start(1, "daemon 1");
  const rpc::Envelope spawned = receive();
  const Descriptor daemon = pidfd_of(read_line(spawned.descriptors.at(1)));
  socket_.reset();
  guardian_.reset();
  EXPECT_TRUE(has_ended(spawned.descriptors.at(0)));
  EXPECT_TRUE(has_ended(daemon));
}

TEST_F(ForkedWorkerTest, AFolderThatIsNotThereIsNamed) {
  fork_guardian();
  start(1, "exit 0", /*fork=*/true, "/no/such/folder");
  EXPECT_THAT(receive<Spawned>().error, HasSubstr("into the directory /no/such/folder: No such file"));
}

TEST_F(ForkedWorkerTest, AProcessWithThreadsHasNone) {
  std::promise<void> begun, done;
  std::thread waiting([&] {
    begun.set_value();
    done.get_future().wait();
  });
  begun.get_future().wait();
  fork_guardian();
  start(1, "exit 0");
  EXPECT_THAT(receive<Spawned>().error, HasSubstr("can fork no workers"));
  start(2, "describe", /*fork=*/false);
  EXPECT_THAT(description(), ::testing::Contains("descriptors 0 1 2 3 "));
  done.set_value();
  waiting.join();
}

}  // namespace
}  // namespace paceline::agent
