// Processes that the guardian has forked from a fork server, which agent_test_process can be.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <map>

#include "paceline/agent/guardian.h"
#include "paceline/agent/guardian_messages.h"
#include "paceline/agent/process_fixture.h"
#include "paceline/rpc/blocking_socket.h"

namespace paceline::agent {
namespace {

using ::testing::HasSubstr;

class ForkServersTest : public ProcessFixture {
 protected:
  void SetUp() override {
    ProcessFixture::SetUp();
    guardian_.emplace(Guardian::fork_now().ValueOrDie());
    socket_.emplace(guardian_->connect().ValueOrDie());
  }

  void TearDown() override {
    socket_.reset();
    guardian_.reset();
    ProcessFixture::TearDown();
  }

  void fork(int64_t worker, const std::string& what, const std::string& server = "well", const std::string& key = "",
            const std::string& directory = "", const std::string& argument = "") {
    const Spawn request{.environment = {{"DO", what}, {"NAME", "value"}},
                        .directory = directory,
                        .fork_server = {program_beside_test("agent_test_process"), "serve_forks", server, argument},
                        .fork_server_key = key};
    must(socket_->send(rpc::pack(request, {.worker = WorkerId{worker}})));
  }
  rpc::Envelope receive() { return std::move(socket_->receive().ValueOrDie()).value(); }
  template <class Message>
  Message receive() {
    return rpc::unpack<Message>(receive()).ValueOrDie();
  }
  static std::string read_all(const Descriptor& pipe) {
    std::string text;
    for (char c; ::read(pipe.get(), &c, 1) == 1;) text += c;
    return text;
  }

  std::optional<Guardian> guardian_;
  std::optional<rpc::BlockingSocket> socket_;
};

TEST_F(ForkServersTest, AProcessIsTheGuardiansOwn) {
  fork(1, "describe", "well", "", "/");
  const rpc::Envelope spawned = receive();
  ASSERT_EQ(spawned.descriptors.size(), 4u) << spawned.body.dump();
  const std::string said = read_all(spawned.descriptors.at(1));
  EXPECT_THAT(said, HasSubstr("environment NAME=value\n"));
  EXPECT_THAT(said, HasSubstr("environment PACELINE_CHANNEL="));
  EXPECT_THAT(said, HasSubstr("directory /\n"));
  EXPECT_THAT(said, HasSubstr("input 0\n"));
  EXPECT_THAT(said, HasSubstr("leads its group 1\n"));
  const rpc::Envelope exited = receive();
  EXPECT_EQ(exited.identity.worker, WorkerId{1});
  EXPECT_EQ(rpc::unpack<Exited>(exited).ValueOrDie().status, ExitStatus{});

  fork(2, "signal " + std::to_string(SIGTERM));
  receive<Spawned>();
  EXPECT_EQ(receive<Exited>().status, ExitStatus{.signal = SIGTERM});
}

TEST_F(ForkServersTest, OneServerForksAllThatHaveItsKey) {
  fork(1, "exit 1");
  fork(2, "exit 2");
  fork(3, "exit 3", "well", "another");
  std::map<int64_t, int> codes;
  while (codes.size() < 3) {
    const rpc::Envelope envelope = receive();
    const auto exited = rpc::unpack<Exited>(envelope);
    if (exited.ok()) codes[envelope.identity.worker.value] = exited->status.exit_code;
  }
  EXPECT_EQ(codes, (std::map<int64_t, int>{{1, 1}, {2, 2}, {3, 3}}));
}

TEST_F(ForkServersTest, AServerThatIsBusyWhileNobodyWaitsForksAllTheSame) {
  const std::string pipe = ::testing::TempDir() + "fork_servers_test_" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  constexpr const char* kRested = "environment FORKED_AFTER_A_REST=yes\n";
  const auto describe = [&](int64_t worker) {
    fork(worker, "describe", "busy", "", "", pipe);
    std::string said = read_all(receive().descriptors.at(1));
    receive<Exited>();
    return said;
  };
  describe(1);
  const std::string said = describe(2);
  EXPECT_THAT(said, HasSubstr("leads its group 1\n"));
  EXPECT_THAT(said, ::testing::Not(HasSubstr(kRested)));
  {
    const Descriptor ends_the_rest(::open(pipe.c_str(), O_WRONLY));
  }
  // The server takes its place again between two requests.
  int64_t worker = 3;
  while (describe(worker).find(kRested) == std::string::npos && worker < 1000) ++worker;
  EXPECT_LT(worker, 1000);
  ::unlink(pipe.c_str());
}

TEST_F(ForkServersTest, AKilledProcessGoesWithItsTreeAndTheServerStays) {
  fork(1, "daemon 2");
  const rpc::Envelope spawned = receive();
  must(socket_->send(rpc::pack(KillTree{}, {.worker = WorkerId{1}})));
  EXPECT_TRUE(receive<Exited>().status.ended_by_paceline);
  fork(2, "exit 5");
  receive<Spawned>();
  EXPECT_EQ(receive<Exited>().status, ExitStatus{.exit_code = 5});
}

TEST_F(ForkServersTest, AServerThatCannotForkSaysWhy) {
  fork(1, "exit 0", "threads");
  EXPECT_THAT(receive<Spawned>().error, HasSubstr("one thread, but it has 2"));
  fork(2, "exit 0", "leave");
  EXPECT_THAT(receive<Spawned>().error,
              HasSubstr("forked from is gone: it has ended. Its last words:\nthere is no mod"));
  fork(3, "exit 0", "leave");
  EXPECT_THAT(receive<Spawned>().error, HasSubstr("forked from is gone"));
  must(socket_->send(rpc::pack(Spawn{.fork_server = {"/no/such/program"}}, {.worker = WorkerId{4}})));
  EXPECT_THAT(receive<Spawned>().error, HasSubstr("/no/such/program"));
}

}  // namespace
}  // namespace paceline::agent
