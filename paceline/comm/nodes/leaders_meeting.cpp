#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "paceline/comm/nodes/leaders_meeting_internal.h"
#include "paceline/core/error.h"
#include "paceline/core/peer_lost.h"
#include "paceline/core/posix/descriptor_limit.h"

namespace paceline::comm {
namespace {

constexpr size_t kTokenBytes = 32;
constexpr size_t kStrangers = 64;  // that may be connected at a time, at most
// What a leader that connects says first: the token of whom it calls, and its own node.
using Hello = std::array<char, kTokenBytes + sizeof(uint32_t)>;

std::string new_token() {
  std::random_device random;
  std::string token;
  constexpr const char* kDigits = "0123456789abcdef";
  for (size_t i = 0; i < kTokenBytes; ++i) token += kDigits[random() % 16];
  return token;
}

CollectiveError not_connected(const std::string& why) {
  return CollectiveError("the first ranks of the nodes cannot connect: " + why, CollectiveCause::other_rank);
}

std::string system_text() {
  return std::strerror(errno);
}

// For one more file. Where this process may not have it, no other rank is to blame.
void make_room(int error) {
  const arrow::Status room = make_room_for_descriptor(error);
  if (!room.ok()) {
    throw CollectiveError("the first ranks of the nodes cannot connect: " + room.message(), CollectiveCause::this_rank);
  }
}

// An address in numbers and a port, for sockets; a name too.
class Endpoint {
 public:
  Endpoint(const std::string& address, int port) : text_(address + ", port " + std::to_string(port)) {
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int problem = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &wanted, &list);
    if (problem != 0) throw not_connected("\"" + address + "\": " + ::gai_strerror(problem));
    size_ = list->ai_addrlen;
    std::memcpy(&storage_, list->ai_addr, size_);
    ::freeaddrinfo(list);
  }

  const std::string& text() const { return text_; }
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }
  Descriptor socket() const {
    while (true) {
      Descriptor made(::socket(address()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (made) return made;
      if (!is_lack_of_descriptors(errno)) throw not_connected(system_text());
      make_room(errno);
    }
  }

 private:
  const std::string text_;
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

int port_of(const Descriptor& listener) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&own), &size);
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(own).sin6_port
                                         : reinterpret_cast<const sockaddr_in&>(own).sin_port);
}

Descriptor listen_at(const std::string& address) {
  const Endpoint at(address, 0);
  Descriptor listener = at.socket();
  if (::bind(listener.get(), at.address(), at.size()) != 0 || ::listen(listener.get(), SOMAXCONN) != 0) {
    throw not_connected("no port at " + address + ": " + system_text());
  }
  return listener;
}

// A connection whose machine is gone ends within a quarter of a minute.
void prepare(const Descriptor& connection) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(connection.get(), level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 3);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 15'000);
  ::fcntl(connection.get(), F_SETFL, O_NONBLOCK);
}

Descriptor call_up(const Endpoint& at, const std::string& token, size_t own_node, LeadersDeadline deadline) {
  Descriptor connection = at.socket();
  prepare(connection);
  int problem = ::connect(connection.get(), at.address(), at.size()) == 0 ? 0 : errno;
  if (problem == EINPROGRESS) {
    pollfd event{connection.get(), POLLOUT, 0};
    socklen_t size = sizeof problem;
    int ready = -1;
    while ((ready = ::poll(&event, 1, milliseconds_until(deadline))) < 0 && errno == EINTR) {
    }
    if (ready <= 0) {
      problem = ETIMEDOUT;
    } else {
      ::getsockopt(connection.get(), SOL_SOCKET, SO_ERROR, &problem, &size);
    }
  }
  if (problem != 0) throw not_connected("to " + at.text() + ": " + std::strerror(problem));
  Hello hello{};
  const auto node = static_cast<uint32_t>(own_node);
  std::ranges::copy(token, hello.begin());
  std::memcpy(hello.data() + kTokenBytes, &node, sizeof node);
  if (::send(connection.get(), hello.data(), hello.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(hello.size())) {
    throw not_connected("to " + at.text() + ": " + system_text());
  }
  return connection;
}

// Those of the nodes behind this one call; strangers are sent away, or hang on at nobody's cost.
std::vector<Descriptor> answer(const Descriptor& listener, const std::string& token, size_t own_node,
                               const std::vector<int64_t>& ranks, LeadersDeadline deadline) {
  struct Caller {
    Descriptor connection;
    std::string said;
  };
  std::vector<Caller> callers;
  std::vector<Descriptor> known(ranks.size());
  for (size_t missing = ranks.size() - own_node - 1; missing > 0;) {
    if (callers.size() > ranks.size() + kStrangers) callers.erase(callers.begin());  // it has said nothing for longest
    std::vector<pollfd> events{{listener.get(), POLLIN, 0}};
    for (const Caller& caller : callers) events.push_back({caller.connection.get(), POLLIN, 0});
    ::poll(events.data(), events.size(), milliseconds_until(deadline));
    if (std::chrono::steady_clock::now() >= deadline) {
      std::vector<int64_t> late;
      for (size_t node = own_node + 1; node < ranks.size(); ++node) {
        if (!known[node]) late.push_back(ranks[node]);
      }
      throw not_connected(names_of_ranks(late) + (late.size() == 1 ? " has" : " have") +
                          " not come in time (TorchConfig.timeout_s)");
    }
    for (size_t i = callers.size(); i-- > 0;) {
      if (events[i + 1].revents == 0) continue;
      Caller& caller = callers[i];
      Hello part{};
      const ssize_t got = ::recv(caller.connection.get(), part.data(), part.size() - caller.said.size(), MSG_DONTWAIT);
      if (got > 0) caller.said.append(part.data(), static_cast<size_t>(got));
      if (got > 0 && caller.said.size() < part.size()) continue;
      if (caller.said.size() == part.size() && caller.said.starts_with(token)) {
        uint32_t node = 0;
        std::memcpy(&node, caller.said.data() + kTokenBytes, sizeof node);
        if (node > own_node && node < known.size() && !known[node]) {
          prepare(caller.connection);
          known[node] = std::move(caller.connection);
          --missing;
        }
      }
      callers.erase(callers.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (events.front().revents == 0) continue;
    Descriptor connection(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection) {
      callers.push_back({std::move(connection), {}});
    } else if (is_lack_of_descriptors(errno)) {
      make_room(errno);
    }
  }
  return known;
}

}  // namespace

int milliseconds_until(LeadersDeadline deadline) {
  if (deadline == LeadersDeadline::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
}

std::vector<Descriptor> connect_leaders(const collective::Bulletin& bulletin, size_t node,
                                        const std::vector<int64_t>& ranks, const std::string& address,
                                        LeadersDeadline deadline) {
  const std::string token = new_token();
  const Descriptor listener = listen_at(address);
  bulletin.set(std::to_string(node),
               nlohmann::json{{"address", address}, {"port", port_of(listener)}, {"token", token}}.dump());
  std::vector<Descriptor> called(node);
  for (size_t other = 0; other < node; ++other) {
    const auto at = nlohmann::json::parse(bulletin.get(std::to_string(other), deadline));
    called[other] = call_up(Endpoint(at.at("address"), at.at("port")), at.at("token"), node, deadline);
  }
  std::vector<Descriptor> connections = answer(listener, token, node, ranks, deadline);
  std::ranges::move(called, connections.begin());
  return connections;
}

}  // namespace paceline::comm
