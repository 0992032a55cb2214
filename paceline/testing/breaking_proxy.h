// A TCP proxy on loopback that breaks connections where a test wants: after a number of bytes, or by forwarding nothing
// any more without telling anybody.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "paceline/core/posix/descriptor.h"

namespace paceline::testing {

/// A TCP socket on loopback: connected to `port`, or, where it is 0, listening at any.
inline Descriptor loopback_socket(int port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (port != 0) {
    EXPECT_EQ(::connect(socket.get(), generic, sizeof address), 0) << errno;
  } else {
    EXPECT_EQ(::bind(socket.get(), generic, sizeof address), 0) << errno;
    EXPECT_EQ(::listen(socket.get(), 128), 0) << errno;
  }
  return socket;
}

inline int port_of(const Descriptor& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

class BreakingProxy {
 public:
  /// `cut_after`: the Nth connection, from 0, breaks when so many bytes have gone either way together; 0: it does not.
  BreakingProxy(int target_port, std::function<size_t(int)> cut_after)
      : BreakingProxy([target_port](int) { return target_port; }, std::move(cut_after)) {}
  /// `target_port`: of the Nth connection, likewise.
  BreakingProxy(std::function<int(int)> target_port, std::function<size_t(int)> cut_after)
      : target_port_(std::move(target_port)),
        cut_after_(std::move(cut_after)),
        listening_(loopback_socket(0)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread_([this] { run(); }) {}

  ~BreakingProxy() {
    stopping_ = true;
    wake();
    thread_.join();
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_of(listening_)); }
  /// How many connections there have been.
  int connections() const { return count_; }
  /// From here on nothing is forwarded and nobody is told; until thaw() nobody new is accepted either.
  void freeze() {
    frozen_ = true;
    ++freezes_;
    wake();
  }
  /// New connections are forwarded again; those that were there at freeze() never are.
  void thaw() {
    frozen_ = false;
    wake();
  }

 private:
  struct Way {
    int from, to;
    std::string waiting;
    bool ended = false;
  };
  struct Pair {
    Descriptor near, far;
    Way ways[2];
    size_t left;
    int freezes;  // how many there had been when it came: one more, and it is frozen
  };

  void wake() {
    const uint64_t one = 1;
    EXPECT_EQ(::write(wake_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  }

  void run() {
    while (!stopping_) {
      std::vector<pollfd> polled{{.fd = wake_.get(), .events = POLLIN},
                                 {.fd = frozen_ ? -1 : listening_.get(), .events = POLLIN}};
      for (const Pair& pair : pairs_) {
        for (const Way& way : pair.ways) {
          const bool reads = !is_frozen(pair) && !way.ended && way.waiting.size() < kBuffer;
          const bool writes = !is_frozen(pair) && !way.waiting.empty();
          polled.push_back({.fd = reads ? way.from : -1, .events = POLLIN});
          polled.push_back({.fd = writes ? way.to : -1, .events = POLLOUT});
        }
      }
      ::poll(polled.data(), polled.size(), -1);
      uint64_t ignored;
      while (::read(wake_.get(), &ignored, sizeof ignored) > 0) {
      }
      for (auto pair = pairs_.begin(); pair != pairs_.end();)
        pair = forward(*pair) ? std::next(pair) : pairs_.erase(pair);
      if ((polled[1].revents & POLLIN) != 0) accept();
    }
  }

  bool is_frozen(const Pair& pair) const { return pair.freezes < freezes_; }

  void accept() {
    Descriptor near(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!near) return;
    const int connection = count_++;
    Descriptor far = loopback_socket(target_port_(connection));
    ::fcntl(far.get(), F_SETFL, O_NONBLOCK);
    const size_t limit = cut_after_(connection);
    Pair& pair = pairs_.emplace_back(std::move(near), std::move(far));
    pair.left = limit == 0 ? SIZE_MAX : limit;
    pair.freezes = freezes_;
    pair.ways[0] = {.from = pair.near.get(), .to = pair.far.get()};
    pair.ways[1] = {.from = pair.far.get(), .to = pair.near.get()};
  }

  // Whether the connection goes on. Closing with bytes unread, as here, resets it at both ends.
  bool forward(Pair& pair) const {
    if (is_frozen(pair)) return true;
    for (Way& way : pair.ways) {
      char bytes[4096];
      while (!way.ended && way.waiting.size() < kBuffer) {
        const ssize_t got = ::recv(way.from, bytes, sizeof bytes, 0);
        if (got < 0 && errno == EAGAIN) break;
        if (got < 0) return false;
        if (got == 0) {
          way.ended = true;
          break;
        }
        way.waiting.append(bytes, std::min(static_cast<size_t>(got), pair.left));
        pair.left -= std::min(static_cast<size_t>(got), pair.left);
        if (pair.left == 0) break;
      }
      while (!way.waiting.empty()) {
        const ssize_t sent = ::send(way.to, way.waiting.data(), way.waiting.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) break;
        if (sent < 0) return false;
        way.waiting.erase(0, static_cast<size_t>(sent));
      }
      if (pair.left == 0 && way.waiting.empty()) return false;
      if (way.ended && way.waiting.empty()) return false;
    }
    return true;
  }

  static constexpr size_t kBuffer = 64 << 10;
  const std::function<int(int)> target_port_;
  const std::function<size_t(int)> cut_after_;
  Descriptor listening_;
  Descriptor wake_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> frozen_ = false;
  std::atomic<int> freezes_ = 0;
  std::atomic<int> count_ = 0;
  std::list<Pair> pairs_;
  std::thread thread_;
};

}  // namespace paceline::testing
