#include "paceline/agent/guardian.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <thread>

#include "paceline/agent/guardian_messages.h"
#include "paceline/agent/process_fixture.h"
#include "paceline/rpc/blocking_socket.h"

namespace paceline::agent {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// One connection to the guardian, spoken from the test's own thread.
class Connection {
 public:
  explicit Connection(const Guardian& guardian) : socket_(guardian.connect().ValueOrDie()) {}

  void send(rpc::Envelope envelope) { must(socket_.send(std::move(envelope))); }
  void spawn(int64_t worker, rpc::Strings arguments, const rpc::StringMap& environment = {},
             const std::string& directory = "") {
    arguments.insert(arguments.begin(), program_beside_test("agent_test_process"));
    const Spawn request{.arguments = arguments, .environment = environment, .directory = directory};
    send(rpc::pack(request, {.worker = WorkerId{worker}}));
  }
  void kill_tree(int64_t worker) { send(rpc::pack(KillTree{}, {.worker = WorkerId{worker}})); }
  rpc::Envelope receive() { return std::move(socket_.receive().ValueOrDie()).value(); }
  template <class Message>
  Message receive() {
    return rpc::unpack<Message>(receive()).ValueOrDie();
  }

 private:
  rpc::BlockingSocket socket_;
};

std::string read_line(const Descriptor& pipe) {
  std::string line;
  for (char c; ::read(pipe.get(), &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

std::vector<std::string> read_lines(const Descriptor& pipe) {
  std::vector<std::string> lines;
  for (std::string line = read_line(pipe); !line.empty(); line = read_line(pipe)) lines.push_back(line);
  return lines;
}

class GuardianTest : public ProcessFixture {};

TEST_F(GuardianTest, ReportsHowProcessesEnd) {
  const Guardian guardian = Guardian::fork_now().ValueOrDie();
  Connection connection(guardian);
  connection.spawn(1, {"exit", "3"});
  const rpc::Envelope spawned = connection.receive();
  EXPECT_EQ(spawned.type, Spawned::kType);
  EXPECT_EQ(spawned.descriptors.size(), 4u);
  const rpc::Envelope exited = connection.receive();
  EXPECT_EQ(exited.identity.worker, WorkerId{1});
  EXPECT_EQ(rpc::unpack<Exited>(exited).ValueOrDie().status, ExitStatus{.exit_code = 3});
  EXPECT_TRUE(has_ended(spawned.descriptors.at(0)));

  connection.spawn(2, {"signal", std::to_string(SIGTERM)});
  connection.receive<Spawned>();
  EXPECT_EQ(connection.receive<Exited>().status, ExitStatus{.signal = SIGTERM});
}

TEST_F(GuardianTest, GivesAProcessNothingButWhatItShallHave) {
  std::signal(SIGUSR1, SIG_IGN);
  const Guardian guardian = Guardian::fork_now().ValueOrDie();
  std::signal(SIGUSR1, SIG_DFL);
  Connection connection(guardian);
  connection.spawn(1, {"describe"}, {{"NAME", "value"}}, "/");
  const rpc::Envelope spawned = connection.receive();
  const std::vector<std::string> lines = read_lines(spawned.descriptors.at(1));
  EXPECT_THAT(lines, Contains("descriptors 0 1 2 3 "));
  EXPECT_THAT(lines, Contains("environment NAME=value"));
  EXPECT_THAT(lines, Contains("environment PACELINE_CHANNEL=3"));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("environment PATH"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("ignored"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("blocked"))));
  EXPECT_THAT(lines, Contains("directory /"));
  EXPECT_THAT(lines, Contains("input 0"));
  EXPECT_THAT(lines, Contains("leads its group 1"));
  connection.receive<Exited>();
}

TEST_F(GuardianTest, TheEndOfOneProcessSparesTheDaemonsOfAnother) {
  const Guardian guardian = Guardian::fork_now().ValueOrDie();
  Connection connection(guardian);
  connection.spawn(1, {"daemon", "1"});
  const rpc::Envelope spawned = connection.receive();
  const Descriptor daemon = pidfd_of(read_line(spawned.descriptors.at(1)));
  ASSERT_EQ(read_line(spawned.descriptors.at(1)), "ready");
  connection.spawn(2, {"exit", "0"});
  connection.receive<Spawned>();
  connection.receive<Exited>();
  EXPECT_FALSE(has_ended(daemon));
  connection.kill_tree(1);
  connection.receive<Exited>();
  EXPECT_TRUE(has_ended(daemon)) << "with the process that it is of";
}

TEST_F(GuardianTest, SaysWhyAProcessCannotStart) {
  const Guardian guardian = Guardian::fork_now().ValueOrDie();
  Connection connection(guardian);
  connection.send(rpc::pack(Spawn{.arguments = {"/no/such/program"}}));
  EXPECT_THAT(connection.receive<Spawned>().error, HasSubstr("/no/such/program: No such file"));
  connection.spawn(1, {"exit", "0"}, {}, "/no/such/folder");
  EXPECT_THAT(connection.receive<Spawned>().error, HasSubstr("in the directory /no/such/folder"));
  connection.send(rpc::pack(Spawn{}));
  EXPECT_THAT(connection.receive<Spawned>().error, HasSubstr("no program"));
  rpc::Envelope nonsense = rpc::pack(Spawn{});
  nonsense.body["arguments"] = 7;
  connection.send(std::move(nonsense));
  EXPECT_THAT(connection.receive<Spawned>().error, HasSubstr("spawn"));
}

TEST_F(GuardianTest, IsStartedAsAProgramToo) {
  std::thread([] {}).join();  // a process that has, or had, threads
  const Guardian guardian = Guardian::start(program_beside_test("paceline_guardian")).ValueOrDie();
  Connection connection(guardian);
  connection.spawn(1, {"describe"});
  const rpc::Envelope spawned = connection.receive();
  EXPECT_THAT(read_lines(spawned.descriptors.at(1)), Contains("descriptors 0 1 2 3 "));
  EXPECT_EQ(connection.receive<Exited>().status, ExitStatus{});
  EXPECT_THAT(Guardian::start("/no/such/program").status().message(), HasSubstr("/no/such/program"));
}

TEST_F(GuardianTest, KillsWhatHasLeftTheTree) {
  const Guardian guardian = Guardian::fork_now().ValueOrDie();
  Connection connection(guardian);
  connection.spawn(1, {"daemon", "3"});
  const rpc::Envelope spawned = connection.receive();
  std::vector<Descriptor> daemons;
  for (int i = 0; i < 3; ++i) daemons.push_back(pidfd_of(read_line(spawned.descriptors.at(1))));
  EXPECT_EQ(read_line(spawned.descriptors.at(1)), "ready");
  for (const Descriptor& daemon : daemons) EXPECT_FALSE(has_ended(daemon));
  signal_process(spawned.descriptors.at(0), SIGKILL);
  EXPECT_EQ(connection.receive<Exited>().status, ExitStatus{.signal = SIGKILL});
  for (const Descriptor& daemon : daemons) EXPECT_TRUE(has_ended(daemon));
}

TEST_F(GuardianTest, OneProcessEndsAndAnothersTreeLives) {
  const Guardian guardian = Guardian::fork_now().ValueOrDie();
  Connection connection(guardian);
  connection.spawn(1, {"sleep"});
  const rpc::Envelope living = connection.receive();
  connection.spawn(2, {"exit", "0"});
  connection.receive<Spawned>();
  EXPECT_EQ(connection.receive().identity.worker, WorkerId{2});
  EXPECT_FALSE(has_ended(living.descriptors.at(0)));
}

TEST_F(GuardianTest, EndsAProcessThatForksInManySessions) {
  const Guardian guardian = Guardian::fork_now().ValueOrDie();
  Connection connection(guardian);
  connection.spawn(1, {"bomb", "100"});
  connection.receive<Spawned>();
  connection.kill_tree(1);
  connection.receive<Exited>();
}

TEST_F(GuardianTest, TellsItsOwnKillFromOthers) {
  const Guardian guardian = Guardian::fork_now().ValueOrDie();
  Connection connection(guardian);
  connection.spawn(1, {"sleep"});
  connection.receive<Spawned>();
  connection.kill_tree(1);
  EXPECT_EQ(connection.receive<Exited>().status, (ExitStatus{.signal = SIGKILL, .ended_by_paceline = true}));

  // It had ended before the command was sent, and the guardian says so whichever it sees first.
  connection.spawn(2, {"exit", "5"});
  const rpc::Envelope spawned = connection.receive();
  pollfd event{spawned.descriptors.at(0).get(), POLLIN, 0};
  ASSERT_EQ(::poll(&event, 1, -1), 1);
  connection.kill_tree(2);
  EXPECT_EQ(connection.receive<Exited>().status, ExitStatus{.exit_code = 5});
  connection.kill_tree(2);
  connection.kill_tree(77);
}

TEST_F(GuardianTest, ReportsStopAndContinuation) {
  const Guardian guardian = Guardian::fork_now().ValueOrDie();
  Connection connection(guardian);
  connection.spawn(1, {"sleep"});
  const rpc::Envelope spawned = connection.receive();
  signal_process(spawned.descriptors.at(0), SIGSTOP);
  EXPECT_TRUE(connection.receive<Suspended>().suspended);
  signal_process(spawned.descriptors.at(0), SIGCONT);
  EXPECT_FALSE(connection.receive<Suspended>().suspended);
  signal_process(spawned.descriptors.at(0), SIGSTOP);
  EXPECT_TRUE(connection.receive<Suspended>().suspended);
  connection.kill_tree(1);
  connection.receive<Exited>();
}

TEST_F(GuardianTest, AClosedConnectionEndsItsProcessesOnly) {
  const Guardian guardian = Guardian::fork_now().ValueOrDie();
  Connection stays(guardian);
  stays.spawn(1, {"sleep"});
  const rpc::Envelope living = stays.receive();
  rpc::Envelope other;
  {
    Connection connection(guardian);
    connection.spawn(1, {"sleep"});
    other = connection.receive();
  }
  pollfd event{other.descriptors.at(0).get(), POLLIN, 0};
  EXPECT_EQ(::poll(&event, 1, -1), 1);
  EXPECT_FALSE(has_ended(living.descriptors.at(0)));
}

TEST_F(GuardianTest, EndsEverythingWithItsHandle) {
  auto guardian = std::make_unique<Guardian>(Guardian::fork_now().ValueOrDie());
  Connection connection(*guardian);
  connection.spawn(1, {"daemon", "1"});
  const rpc::Envelope spawned = connection.receive();
  const Descriptor daemon = pidfd_of(read_line(spawned.descriptors.at(1)));
  guardian.reset();
  EXPECT_TRUE(has_ended(spawned.descriptors.at(0)));
  EXPECT_TRUE(has_ended(daemon));
}

TEST_F(GuardianTest, AStoppedGuardianEndsWithAllBelowIt) {
  auto guardian = std::make_unique<Guardian>(Guardian::fork_now().ValueOrDie());
  Connection connection(*guardian);
  connection.spawn(1, {"sleep"});
  const rpc::Envelope spawned = connection.receive();
  ::kill(guardian->pid(), SIGSTOP);
  guardian.reset();
  EXPECT_TRUE(has_ended(spawned.descriptors.at(0)));
}

// The end of a process and of the connection that asked for it, seen in one turn.
TEST_F(GuardianTest, AConnectionThatCannotBeWrittenToIsNoSurprise) {
  const Guardian guardian = Guardian::fork_now().ValueOrDie();
  auto connection = std::make_unique<Connection>(guardian);
  connection->spawn(1, {"sleep"});
  const rpc::Envelope spawned = connection->receive();
  ::kill(guardian.pid(), SIGSTOP);
  signal_process(spawned.descriptors.at(0), SIGKILL);
  connection.reset();
  ::kill(guardian.pid(), SIGCONT);
  Connection next(guardian);
  next.spawn(2, {"exit", "0"});
  next.receive<Spawned>();
  EXPECT_EQ(next.receive<Exited>().status, ExitStatus{});
}

TEST_F(GuardianTest, SignalsToTheTerminalsGroupDoNotEndIt) {
  const Guardian guardian = Guardian::fork_now().ValueOrDie();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGTSTP}) ::kill(guardian.pid(), signal);
  Connection connection(guardian);
  connection.spawn(1, {"exit", "0"});
  connection.receive<Spawned>();
  connection.receive<Exited>();
  EXPECT_EQ(::getpgid(guardian.pid()), guardian.pid());
}

TEST_F(GuardianTest, SaysThatItHasEnded) {
  const Guardian guardian = Guardian::fork_now().ValueOrDie();
  ::kill(guardian.pid(), SIGKILL);
  ::waitid(P_PID, static_cast<id_t>(guardian.pid()), nullptr, WEXITED | WNOWAIT | __WALL);
  EXPECT_THAT(guardian.connect().status().message(), HasSubstr("has ended; start the program again"));
}

int user_signals = 0;

TEST_F(GuardianTest, TheUsersChildrenStayTheirs) {
  std::signal(SIGCHLD, [](int) { ++user_signals; });
  {
    const Guardian guardian = Guardian::fork_now().ValueOrDie();
    // wait() does not see the guardian: a program that waits for all its children comes through.
    EXPECT_EQ(::wait(nullptr), -1);
    EXPECT_EQ(errno, ECHILD);
    Connection connection(guardian);
    connection.spawn(1, {"exit", "0"});
    connection.receive<Spawned>();
    connection.receive<Exited>();
    EXPECT_EQ(user_signals, 0);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(7);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 7);
  }
  EXPECT_EQ(user_signals, 1) << "the guardian's own end is no signal";
  std::signal(SIGCHLD, SIG_DFL);
}

TEST_F(GuardianTest, ACopyOfTheHandleInAForkedProcessDoesNothing) {
  auto guardian = std::make_unique<Guardian>(Guardian::fork_now().ValueOrDie());
  const pid_t child = ::fork();
  if (child == 0) {
    guardian.reset();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  Connection connection(*guardian);
  connection.spawn(1, {"exit", "0"});
  connection.receive<Spawned>();
  connection.receive<Exited>();
}

TEST_F(GuardianTest, AProcessWithThreadsHasOneThatItsWaitSees) {
  std::promise<void> begun, done;
  std::thread waiting([&] {
    begun.set_value();
    done.get_future().wait();
  });
  begun.get_future().wait();
  {
    const Guardian guardian = Guardian::fork_now().ValueOrDie();
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), 0);
    Connection connection(guardian);
    connection.spawn(1, {"exit", "3"});
    connection.receive<Spawned>();
    EXPECT_EQ(connection.receive<Exited>().status, ExitStatus{.exit_code = 3});
  }
  done.set_value();
  waiting.join();
  // A thread that was joined does not count, although the kernel may still be at it.
  for (int i = 0; i < 20; ++i) {
    std::thread([] {}).join();
    const Guardian guardian = Guardian::fork_now().ValueOrDie();
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  }
}

}  // namespace
}  // namespace paceline::agent
