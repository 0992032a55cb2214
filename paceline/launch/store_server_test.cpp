#include "paceline/launch/store_server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <mutex>

#include "paceline/core/posix/descriptor.h"
#include "paceline/rpc/blocking_socket.h"
#include "paceline/rpc/key_value_client.h"
#include "paceline/rpc/memory_key_value.h"
#include "paceline/testing/key_value_conformance.h"

namespace paceline::testing {
namespace {

Descriptor unconnected() {
  return Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

void connect(const Descriptor& socket, const std::string& address) {
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::memcpy(where.sun_path + 1, address.data() + 1, address.size() - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&where), size), 0) << std::strerror(errno);
}

Descriptor connect_to(const std::string& address) {
  Descriptor socket = unconnected();
  connect(socket, address);
  return socket;
}

// The reference implementation, with a server before each generation's client, and a connection for each of its users.
class ServedStore {
 public:
  std::shared_ptr<rpc::KeyValueClient> client(const Identity& identity) {
    const std::lock_guard lock(mutex_);
    auto& server = servers_[{identity.attempt, identity.generation}];
    if (!server) server = launch::serve_store(store_.client(identity)).ValueOrDie();
    const auto socket = std::make_shared<rpc::BlockingSocket>(connect_to(server->address()));
    return rpc::make_key_value_client(
        [socket](rpc::Envelope request, std::chrono::milliseconds) -> arrow::Result<rpc::Envelope> {
          ARROW_RETURN_NOT_OK(socket->send(std::move(request)));
          ARROW_ASSIGN_OR_RAISE(auto reply, socket->receive());
          if (!reply) return arrow::Status::IOError("the server is gone");
          return std::move(*reply);
        },
        identity);
  }
  void drop(Attempt attempt) { store_.drop(attempt); }

 private:
  rpc::MemoryKeyValueStore store_;
  std::mutex mutex_;
  std::map<std::pair<Attempt, Generation>, std::unique_ptr<launch::StoreServer>> servers_;
};

// The server raises the limit where it can, and its clients are only late.
TEST(StoreServer, GoesOnWhenThereAreTooManyOpenFiles) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan, which that build has too, opens a pipe to check a virtual call";
#endif
  rpc::MemoryKeyValueStore store;
  const auto server = launch::serve_store(store.client({.attempt = {1}})).ValueOrDie();
  Descriptor first = unconnected();
  Descriptor second = unconnected();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit nothing{.rlim_cur = 1, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &nothing), 0);
  for (Descriptor* socket : {&first, &second}) {
    connect(*socket, server->address());
    rpc::BlockingSocket client(std::move(*socket));
    EXPECT_TRUE(client.send(rpc::pack(rpc::StoreRequest{.operation = rpc::StoreOperation::num_keys})).ok());
    EXPECT_TRUE(client.wait(std::chrono::seconds(20)).ValueOrDie()) << "no answer";
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
}

INSTANTIATE_TYPED_TEST_SUITE_P(Served, KeyValueConformance, ServedStore);

}  // namespace
}  // namespace paceline::testing
