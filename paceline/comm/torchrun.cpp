#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "paceline/comm/failure_internal.h"
#include "paceline/comm/group_internal.h"
#include "paceline/core/error.h"
#include "paceline/core/posix/broken_pipe.h"
#include "paceline/core/posix/descriptor.h"

namespace paceline::comm {
namespace {

std::string variable(const char* name, const char* otherwise = nullptr) {
  const char* value = std::getenv(name);
  if (value != nullptr) return value;
  if (otherwise != nullptr) return otherwise;
  throw CollectiveError(std::string("the environment variable ") + name +
                        " is not set: start the program with torchrun, or set RANK, WORLD_SIZE, MASTER_ADDR and "
                        "MASTER_PORT");
}

int64_t number(const char* name, const char* otherwise = nullptr) {
  const std::string text = variable(name, otherwise);
  char* end = nullptr;
  const int64_t value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0') {
    throw CollectiveError(std::string("the environment variable ") + name + " is not a number: \"" + text + "\"");
  }
  return value;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "127.0.0.1" || host == "::1";
}

// TCPStore itself would listen on every interface.
Descriptor listen_on_loopback(uint16_t port) {
  Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0) {
    throw CollectiveError("cannot listen on 127.0.0.1:" + std::to_string(port) + ": " + std::strerror(errno));
  }
  return listener;
}

c10::intrusive_ptr<c10d::Store> connect_to_store(const GroupOptions& options, bool loopback) {
  c10d::TCPStoreOptions store_options;
  store_options.port = static_cast<uint16_t>(number("MASTER_PORT"));
  store_options.timeout = options.timeout;
  store_options.waitWorkers = false;  // make_c10d_group waits, and says who is missing
  // torchrun's agent keeps the store; without an agent rank 0 does.
  const bool agent_keeps_store = variable("TORCHELASTIC_USE_AGENT_STORE", "False") == "True";
  store_options.isServer = !agent_keeps_store && options.rank == 0;
  // The store's server writes to sockets whose other ends may be gone: that must not end this rank.
  if (store_options.isServer) survive_broken_pipes();
  const std::string host = loopback ? "127.0.0.1" : variable("MASTER_ADDR");
  if (store_options.isServer && loopback)
    store_options.masterListenFd = listen_on_loopback(store_options.port).release();
  auto store = c10::make_intrusive<c10d::TCPStore>(host, store_options);
  // The agent's store outlives a group: each start of the workers and each group of a process has its own keys. Ranks
  // make their groups in the same order, so they count alike.
  static std::atomic<int64_t> groups{0};
  const std::string start = variable("TORCHELASTIC_RESTART_COUNT", "0");
  return c10::make_intrusive<c10d::PrefixStore>("worker/attempt_" + start + "/group_" + std::to_string(++groups),
                                                store);
}

}  // namespace

std::shared_ptr<Group> Group::from_torchrun_environment(const GroupOptions& options) {
  GroupOptions own = options;
  own.rank = number("RANK");
  own.world_size = number("WORLD_SIZE");
  own = checked(own);
  if (own.world_size == 1) return make_local_group();
  const bool one_machine = number("LOCAL_WORLD_SIZE", "-1") == own.world_size;
  const bool loopback = one_machine || is_loopback(variable("MASTER_ADDR"));
  std::shared_ptr<Group> group;
  FailureReporter(own.rank, own.world_size).run("connecting", [&] {
    group = make_c10d_group(own, connect_to_store(own, loopback && is_loopback(variable("MASTER_ADDR"))),
                            loopback ? kLoopback : "");
  });
  return group;
}

}  // namespace paceline::comm
