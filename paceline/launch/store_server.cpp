#include "paceline/launch/store_server.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <list>
#include <mutex>
#include <random>
#include <thread>

#include "paceline/core/posix/descriptor.h"
#include "paceline/core/posix/descriptor_limit.h"
#include "paceline/core/posix/thread.h"
#include "paceline/core/posix/unix_address.h"
#include "paceline/launch/store_answer.h"
#include "paceline/rpc/blocking_socket.h"

namespace paceline::launch {
namespace {

std::string new_address() {
  std::random_device random;
  char text[64];
  std::snprintf(text, sizeof text, "@paceline-store-%08x%08x%08x%08x", random(), random(), random(), random());
  return text;
}

arrow::Result<Descriptor> listen_at(const std::string& address) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno_status("cannot make a socket");
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::memcpy(where.sun_path + 1, address.data() + 1, address.size() - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&where), size) != 0) {
    return errno_status("cannot bind " + address);
  }
  if (::listen(socket.get(), SOMAXCONN) != 0) return errno_status("cannot listen at " + address);
  return socket;
}

class SocketStoreServer final : public StoreServer {
 public:
  SocketStoreServer(std::string address, Descriptor listener, std::shared_ptr<rpc::KeyValueClient> store)
      : address_(std::move(address)), listener_(std::move(listener)), store_(std::move(store)) {
    acceptor_ = start_thread([this] { accept(); });
  }

  ~SocketStoreServer() override {
    closing_ = true;
    ::shutdown(listener_.get(), SHUT_RDWR);
    acceptor_.join();
    for (Client& client : clients_) client.socket.shut_down();
    for (Client& client : clients_) client.thread.join();
  }

  const std::string& address() const override { return address_; }

 private:
  static constexpr int64_t kMoreDescriptors = 64;
  static constexpr std::chrono::milliseconds kUntilSomethingIsFree{100};

  struct Client {
    explicit Client(Descriptor descriptor) : socket(std::move(descriptor)) {}
    rpc::BlockingSocket socket;
    std::atomic<bool> gone{false};
    std::thread thread;
  };

  // Only this thread, and the destructor after it, touch the list.
  void accept() {
    while (true) {
      Descriptor peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (closing_) return;
      if (!peer) make_room(errno);
      clients_.remove_if([](Client& client) {
        if (client.gone) client.thread.join();
        return client.gone.load();
      });
      if (!peer || !may_connect(peer.get())) continue;
      Client& client = clients_.emplace_back(std::move(peer));
      client.thread = start_thread([this, &client] { serve(client); });
    }
  }

  // After a failure to accept. Whoever waits to be accepted is late then, nothing more.
  void make_room(int error) {
    if (error == EINTR || error == ECONNABORTED) return;
    const bool raised = error == EMFILE && reserve_descriptors(kMoreDescriptors).ok();
    if (!raised) std::this_thread::sleep_for(kUntilSomethingIsFree);
  }

  void serve(Client& client) {
    while (true) {
      const auto request = client.socket.receive();
      if (!request.ok() || !*request || !client.socket.send(answer_store_request(*store_, **request)).ok()) break;
    }
    client.socket.shut_down();
    client.gone = true;
  }

  const std::string address_;
  Descriptor listener_;
  const std::shared_ptr<rpc::KeyValueClient> store_;
  std::list<Client> clients_;
  std::atomic<bool> closing_{false};
  std::thread acceptor_;
};

}  // namespace

arrow::Result<std::unique_ptr<StoreServer>> serve_store(std::shared_ptr<rpc::KeyValueClient> store) {
  std::string address = new_address();
  ARROW_ASSIGN_OR_RAISE(Descriptor listener, listen_at(address));
  return std::make_unique<SocketStoreServer>(std::move(address), std::move(listener), std::move(store));
}

}  // namespace paceline::launch
