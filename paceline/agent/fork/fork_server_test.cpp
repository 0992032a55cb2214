// What one reading may bring a fork server, which a guardian cannot be made to send at will.
#include "paceline/agent/fork/fork_server.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "paceline/agent/spawn_internal.h"
#include "paceline/core/posix/socket_pair.h"
#include "paceline/rpc/frame.h"

namespace paceline::agent {
namespace {

[[noreturn]] void serve(const Descriptor& channel) {
  ::setenv(kForkServerVariable, std::to_string(channel.get()).c_str(), 1);
  auto server = ForkServer::connect();
  const auto worker = server->serve(::fork, [] {});
  if (worker.ok() && *worker) [[maybe_unused]]
    const ssize_t written = ::write(STDOUT_FILENO, "worker ", 7);
  ::_exit(0);
}

// A server that was busy reads that nobody waits and the next order together; the process that serves while it rests
// has read both, too.
TEST(ForkServer, AnOrderThatComesWithTheRestIsCarriedOutOnce) {
  auto [guardian, channel] = make_socket_pair().ValueOrDie();
  auto [shown, output] = make_pipe().ValueOrDie();
  rpc::Envelope idle = rpc::pack(Idle{});
  idle.sequence = 1;
  rpc::Envelope order = rpc::pack(ForkWorker{});
  order.sequence = 2;
  for (int i = 0; i < 3; ++i) order.descriptors.emplace_back(::dup(output.get()));
  const std::string orders = rpc::encode_frame_start(idle).ValueOrDie() + rpc::encode_frame_start(order).ValueOrDie();
  const std::array given = {output.get(), output.get(), output.get()};
  ASSERT_EQ(send_some(guardian.get(), std::as_bytes(std::span(orders)), given).ValueOrDie(), orders.size());
  const pid_t server = ::fork();
  if (server == 0) {
    guardian.reset();
    shown.reset();
    output.reset();
    order.descriptors.clear();
    serve(channel);
  }
  channel.reset();
  output.reset();
  order.descriptors.clear();
  ASSERT_EQ(::shutdown(guardian.get(), SHUT_WR), 0);
  std::string text;
  for (char letter; ::read(shown.get(), &letter, 1) == 1;) text += letter;
  EXPECT_EQ(text, "worker ");
  ::waitpid(server, nullptr, 0);
}

TEST(ForkServer, EndsWithItsGuardianAlsoWhileItRests) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  auto [guardian, channel] = make_socket_pair().ValueOrDie();
  auto [shown, output] = make_pipe().ValueOrDie();
  const pid_t parent = ::fork();
  if (parent == 0) {
    if (::fork() > 0) {
      while (true) ::pause();
    }
    ::setenv(kForkServerVariable, std::to_string(channel.get()).c_str(), 1);
    auto server = ForkServer::connect();
    [[maybe_unused]] const auto end = server->serve(::fork, [&] {
      const pid_t self = ::getpid();
      [[maybe_unused]] const ssize_t written = ::write(output.get(), &self, sizeof self);
      while (true) ::pause();
    });
    ::_exit(0);
  }
  rpc::Envelope idle = rpc::pack(Idle{});
  idle.sequence = 1;
  const std::string order = rpc::encode_frame_start(idle).ValueOrDie();
  ASSERT_TRUE(send_some(guardian.get(), std::as_bytes(std::span(order)), {}).ok());
  pid_t server = 0;
  ASSERT_EQ(::read(shown.get(), &server, sizeof server), static_cast<ssize_t>(sizeof server));
  ::kill(parent, SIGKILL);
  ASSERT_EQ(::waitpid(parent, nullptr, 0), parent);
  int status = 0;
  ASSERT_EQ(::waitpid(server, &status, 0), server);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  channel.reset();
  guardian.reset();  // for the process that served meanwhile
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace paceline::agent
