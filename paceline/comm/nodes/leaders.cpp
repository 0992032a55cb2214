#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "paceline/comm/nodes/leaders_internal.h"
#include "paceline/comm/nodes/leaders_meeting_internal.h"
#include "paceline/core/error.h"
#include "paceline/core/peer_lost.h"
#include "paceline/core/posix/connections_of_forks.h"

namespace paceline::comm {

using collective::Fingerprint;

namespace {

// Kinds of messages. Each has its kind and the size of what follows in front.
constexpr char kCall = 'c', kFailure = 'f', kLeft = 'l', kAborted = 'a', kAsk = '?', kHere = 'h', kReady = 'r',
               kDone = 'd';
using Head = std::array<char, 5>;
constexpr size_t kLongestBody = 64 * 1024;

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

}  // namespace

std::shared_ptr<Leaders> Leaders::connect(const collective::Bulletin& bulletin, size_t node, std::vector<int64_t> ranks,
                                          const std::string& address, Deadline deadline) {
  std::shared_ptr<Leaders> leaders(new Leaders(node, std::move(ranks)));
  std::vector<Descriptor> connections = connect_leaders(bulletin, node, leaders->ranks_, address, deadline);
  for (size_t other = 0; other < connections.size(); ++other) {
    if (other == node) continue;
    ConnectionsOfForks::instance().add(connections[other].get());
    leaders->others_.push_back({.node = other, .connection = std::move(connections[other])});
  }
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
      lose(other, "its machine is not reached any more: " + std::string(std::strerror(errno)));
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
