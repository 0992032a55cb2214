#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "paceline/comm/leaders_internal.h"
#include "paceline/core/error.h"
#include "paceline/core/peer_lost.h"
#include "paceline/core/posix/connections_of_forks.h"
#include "paceline/core/posix/descriptor_limit.h"

namespace paceline::comm {

using collective::Fingerprint;

namespace {

// Kinds of messages. Each has its kind and the size of what follows in front.
constexpr char kCall = 'c', kFailure = 'f', kLeft = 'l', kAborted = 'a', kAsk = '?', kHere = 'h', kReady = 'r',
               kDone = 'd';
using Head = std::array<char, 5>;
constexpr size_t kLongestBody = 64 * 1024;
constexpr size_t kTokenBytes = 32;
constexpr size_t kStrangers = 64;  // that may be connected at a time, at most
// What a leader that connects says first: the token of whom it calls, and its own node.
using Hello = std::array<char, kTokenBytes + sizeof(uint32_t)>;

using Words = std::array<uint64_t, 5>;

Words encode_call(const Fingerprint& call) {
  return {static_cast<uint64_t>(call.kind) | static_cast<uint64_t>(call.what.element) << 8 |
              static_cast<uint64_t>(call.what.reduction) << 16,
          static_cast<uint64_t>(static_cast<int64_t>(call.root)), call.elements, call.shapes,
          std::bit_cast<uint64_t>(call.what.factor)};
}

Fingerprint decode_call(const Words& words) {
  return {.kind = static_cast<collective::Kind>(words[0] & 0xff),
          .what = {.element = static_cast<collective::Element>(words[0] >> 8 & 0xff),
                   .reduction = static_cast<collective::Reduction>(words[0] >> 16 & 0xff),
                   .factor = std::bit_cast<double>(words[4])},
          .root = static_cast<int32_t>(words[1]),
          .elements = words[2],
          .shapes = words[3]};
}

std::string new_token() {
  std::random_device random;
  std::string token;
  constexpr const char* kDigits = "0123456789abcdef";
  for (size_t i = 0; i < kTokenBytes; ++i) token += kDigits[random() % 16];
  return token;
}

int milliseconds_until(Leaders::Deadline deadline) {
  if (deadline == Leaders::Deadline::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
}

CollectiveError not_connected(const std::string& why) {
  return CollectiveError("the first ranks of the nodes cannot connect: " + why, CollectiveCause::other_rank);
}

std::string system_text() {
  return std::strerror(errno);
}

// For one more file. Where this process may not have it, no other rank is to blame.
void make_room(int error) {
  const arrow::Status room =
      error == EMFILE ? reserve_descriptors(1)
                      : arrow::Status::IOError(
                            "all files that this machine may have open are; raise its limit (sysctl fs.file-max)");
  if (!room.ok()) {
    throw CollectiveError("the first ranks of the nodes cannot connect: " + room.message(), CollectiveCause::this_rank);
  }
}

bool is_lack_of_descriptors(int error) {
  return error == EMFILE || error == ENFILE;
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

Descriptor call_up(const Endpoint& at, const std::string& token, size_t own_node, Leaders::Deadline deadline) {
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
                               const std::vector<int64_t>& ranks, Leaders::Deadline deadline) {
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

std::shared_ptr<Leaders> Leaders::connect(const collective::Bulletin& bulletin, size_t node, std::vector<int64_t> ranks,
                                          const std::string& address, Deadline deadline) {
  std::shared_ptr<Leaders> leaders(new Leaders(node, std::move(ranks)));
  const std::string token = new_token();
  const Descriptor listener = listen_at(address);
  bulletin.set(std::to_string(node),
               nlohmann::json{{"address", address}, {"port", port_of(listener)}, {"token", token}}.dump());
  for (size_t other = 0; other < node; ++other) {
    const auto at = nlohmann::json::parse(bulletin.get(std::to_string(other), deadline));
    leaders->others_.push_back(
        {.node = other,
         .connection = call_up(Endpoint(at.at("address"), at.at("port")), at.at("token"), node, deadline)});
  }
  std::vector<Descriptor> callers = answer(listener, token, node, leaders->ranks_, deadline);
  for (size_t other = node + 1; other < callers.size(); ++other) {
    leaders->others_.push_back({.node = other, .connection = std::move(callers[other])});
  }
  for (const Other& other : leaders->others_) ConnectionsOfForks::instance().add(other.connection.get());
  return leaders;
}

Leaders::Leaders(size_t node, std::vector<int64_t> ranks)
    : node_(node), ranks_(std::move(ranks)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Leaders::~Leaders() {
  leave(/*has_aborted=*/false);
  for (const Other& other : others_) ConnectionsOfForks::instance().remove(other.connection.get());
}

// --- telling -----------------------------------------------------------------------------------------------------

void Leaders::send(Other& other, char kind, std::string_view body) {
  if (other.has_ended) return;
  const auto size = static_cast<uint32_t>(body.size());
  Head head{kind};
  std::memcpy(head.data() + 1, &size, sizeof size);
  other.outgoing.append(head.data(), head.size()).append(body);
  flush(other);
}

// As much as there is room for. That a connection has ended is found by who reads from it.
void Leaders::flush(Other& other) {
  while (!other.outgoing.empty()) {
    const ssize_t sent =
        ::send(other.connection.get(), other.outgoing.data(), other.outgoing.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) other.outgoing.clear();
    if (sent <= 0) return;
    other.outgoing.erase(0, static_cast<size_t>(sent));
  }
}

void Leaders::announce(const Fingerprint& call) {
  const Words words = encode_call(call);
  const std::lock_guard lock(mutex_);
  for (Other& other : others_) send(other, kCall, {reinterpret_cast<const char*>(words.data()), sizeof words});
}

void Leaders::announce_ready(uint64_t place) {
  const std::lock_guard lock(mutex_);
  for (Other& other : others_) send(other, kReady, {reinterpret_cast<const char*>(&place), sizeof place});
}

void Leaders::announce_done(uint64_t place) {
  const std::lock_guard lock(mutex_);
  for (Other& other : others_) send(other, kDone, {reinterpret_cast<const char*>(&place), sizeof place});
}

void Leaders::tell(const FirstFailure& failure) {
  const std::string word = failure.encode(kLongestBody);
  const std::lock_guard lock(mutex_);
  for (Other& other : others_) send(other, kFailure, word);
}

void Leaders::ask(uint64_t place) {
  const std::lock_guard lock(mutex_);
  for (Other& other : others_) send(other, kAsk, {reinterpret_cast<const char*>(&place), sizeof place});
}

void Leaders::leave(bool has_aborted) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(has_left_, true)) return;
  for (Other& other : others_) send(other, has_aborted ? kAborted : kLeft, {});
}

// --- hearing -----------------------------------------------------------------------------------------------------

// Its descriptor stays until the end: another thread may wait for it.
void Leaders::lose(Other& other, const std::string& why) {
  other.has_ended = true;
  if (other.gone.empty()) other.gone = why;
}

void Leaders::receive(Other& other) {
  std::array<char, 4096> bytes{};
  while (!other.has_ended) {
    const ssize_t got = ::recv(other.connection.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got > 0) {
      other.incoming.append(bytes.data(), static_cast<size_t>(got));
      understand(other);
    } else if (got == 0 || errno == ECONNRESET || errno == EPIPE) {
      lose(other, "its process has ended");
    } else {
      lose(other, "its machine is not reached any more: " + system_text());
    }
  }
}

void Leaders::understand(Other& other) {
  while (other.incoming.size() >= Head{}.size()) {
    uint32_t size = 0;
    std::memcpy(&size, other.incoming.data() + 1, sizeof size);
    if (size > kLongestBody) return lose(other, "what it says makes no sense");
    if (other.incoming.size() < Head{}.size() + size) return;
    const std::string body = other.incoming.substr(Head{}.size(), size);
    const char kind = other.incoming.front();
    other.incoming.erase(0, Head{}.size() + size);
    if (kind == kCall && size == sizeof(Words)) {
      Words words{};
      std::memcpy(words.data(), body.data(), sizeof words);
      other.calls.push_back(decode_call(words));
      ++other.announced;
    } else if (kind == kFailure) {
      const auto failure = FirstFailure::decode(body);
      if (failure.ok() && !told_) told_ = *failure;
    } else if (kind == kReady && size == sizeof other.ready) {
      std::memcpy(&other.ready, body.data(), sizeof other.ready);
    } else if (kind == kDone && size == sizeof other.done) {
      std::memcpy(&other.done, body.data(), sizeof other.done);
    } else if (kind == kAsk && size == sizeof(uint64_t)) {
      uint64_t place = 0;
      std::memcpy(&place, body.data(), sizeof place);
      const std::vector<int64_t> ranks = awaited_ ? awaited_(place) : std::vector<int64_t>();
      send(other, kHere, {reinterpret_cast<const char*>(ranks.data()), ranks.size() * sizeof ranks.front()});
    } else if (kind == kHere && size % sizeof(int64_t) == 0) {
      other.has_answered = true;
      other.awaited.resize(size / sizeof(int64_t));
      if (size > 0) std::memcpy(other.awaited.data(), body.data(), size);
    } else if (kind == kLeft || kind == kAborted) {
      if (!other.gone.empty()) continue;
      other.has_left = kind == kLeft;
      other.gone = other.has_left ? "it has left the group" : "it has aborted";
    } else {
      return lose(other, "what it says makes no sense");
    }
  }
}

FirstFailure Leaders::missed(const std::vector<const Other*>& others, const std::string& name,
                             const std::string& why) const {
  std::vector<int64_t> ranks;
  for (const Other* other : others) ranks.push_back(rank_of(*other));
  return missed(std::move(ranks), name, why);
}

FirstFailure Leaders::missed(std::vector<int64_t> ranks, const std::string& name, const std::string& why) const {
  FirstFailure failure{.missing = std::move(ranks), .text = {}};
  failure.text = name + " failed on rank " + std::to_string(ranks_[node_]) + for_want_of(failure.missing) + ": " + why;
  return failure;
}

bool Leaders::agree(uint64_t place, const Fingerprint& call, const std::string& name) {
  const std::lock_guard lock(mutex_);
  bool is_any_missing = false, is_same = true;
  std::vector<const Other*> lost;
  std::string calls = "rank " + std::to_string(ranks_[node_]) + " calls " + call.text();
  for (Other& other : others_) {
    receive(other);
    if (other.ready < place) {
      is_any_missing = true;
      if (!other.gone.empty()) lost.push_back(&other);
    }
    if (other.announced < place) continue;
    while (other.announced - other.calls.size() + 1 < place) other.calls.pop_front();
    const Fingerprint& its = other.calls.front();
    calls += "; rank " + std::to_string(rank_of(other)) + " calls " + its.text();
    is_same = is_same && its == call;
  }
  if (!lost.empty()) {
    const FirstFailure failure = missed(lost, name, lost.front()->gone);
    throw PeerLost(failure.text, failure.missing);
  }
  if (is_same) return !is_any_missing;
  throw CollectiveError("the ranks call different collectives in the place of " + name + ": " + calls +
                        ". Every rank has to call the same ones in the same order");
}

std::optional<FirstFailure> Leaders::late(uint64_t place, const std::vector<int64_t>& own,
                                          const std::string& name) const {
  if (auto failure = silent(name)) return failure;
  const std::lock_guard lock(mutex_);
  std::vector<int64_t> ranks = own;
  for (const Other& other : others_) ranks.insert(ranks.end(), other.awaited.begin(), other.awaited.end());
  if (ranks.empty()) {
    for (const Other& other : others_) {
      if (other.announced < place) ranks.push_back(rank_of(other));
    }
  }
  if (ranks.empty()) return std::nullopt;
  std::ranges::sort(ranks);
  const bool is_one = ranks.size() == 1;
  return missed(std::move(ranks), name,
                std::string(is_one ? "it has" : "they have") +
                    " not come in time (TorchConfig.timeout_s). The logs of the other ranks may say what keeps them");
}

std::optional<FirstFailure> Leaders::told() const {
  const std::lock_guard lock(mutex_);
  return told_;
}

std::optional<FirstFailure> Leaders::gone(const std::string& name) const {
  return gone(name, [](const Other&) { return true; });
}

std::optional<FirstFailure> Leaders::crashed(const std::string& name) const {
  return gone(name, [](const Other& other) { return !other.has_left; });
}

std::optional<FirstFailure> Leaders::gone(const std::string& name, uint64_t place) const {
  return gone(name, [place](const Other& other) { return !other.has_left && other.done < place; });
}

std::optional<FirstFailure> Leaders::gone(const std::string& name,
                                          const std::function<bool(const Other&)>& is_needed) const {
  const std::lock_guard lock(mutex_);
  std::vector<const Other*> gone;
  for (const Other& other : others_) {
    if (!other.gone.empty() && is_needed(other)) gone.push_back(&other);
  }
  if (gone.empty()) return std::nullopt;
  return missed(gone, name, gone.front()->gone);
}

std::optional<FirstFailure> Leaders::silent(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  std::vector<const Other*> silent;
  for (const Other& other : others_) {
    if (!other.has_answered && other.gone.empty()) silent.push_back(&other);
  }
  if (silent.empty()) return std::nullopt;
  return missed(silent, name,
                silent.size() == 1 ? "its process does not answer, as one that is stopped (by SIGSTOP, for instance)"
                                   : "their processes do not answer, as some that are stopped");
}

void Leaders::wait(Deadline deadline) {
  std::vector<pollfd> events{{wake_.get(), POLLIN, 0}};
  {
    const std::lock_guard lock(mutex_);
    for (const Other& other : others_) {
      if (other.has_ended) continue;
      const int wanted = other.outgoing.empty() ? POLLIN : POLLIN | POLLOUT;
      events.push_back({other.connection.get(), static_cast<short>(wanted), 0});
    }
  }
  ::poll(events.data(), events.size(), milliseconds_until(deadline));
  uint64_t calls = 0;
  (void)!::read(wake_.get(), &calls, sizeof calls);
  look();
}

void Leaders::look() {
  const std::lock_guard lock(mutex_);
  for (Other& other : others_) {
    if (other.has_ended) continue;
    flush(other);
    receive(other);
  }
}

void Leaders::wake() const {
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

}  // namespace paceline::comm
