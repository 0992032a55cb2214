#include <arrow/util/io_util.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "paceline/collective/handshakes_internal.h"
#include "paceline/core/posix/descriptor_limit.h"
#include "paceline/core/posix/socket_pair.h"
#include "paceline/core/posix/unix_address.h"

namespace paceline::collective {
namespace {

using Clock = std::chrono::steady_clock;

// No event tells that a queue of callers has room again, nor that descriptors have arrived that other processes sent.
constexpr std::chrono::milliseconds kTryAgain{5};
constexpr ptrdiff_t kStrangers = 64;  // that may be connected at a time, beside those who are expected

std::pair<sockaddr_un, socklen_t> abstract_address(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

// OK when a descriptor can be opened now.
arrow::Status make_room(int error, const std::string& what) {
  const arrow::Status room = make_room_for_descriptor(error);
  return room.ok() ? room : arrow::Status::CapacityError(what, ": ", room.message());
}

arrow::Result<Descriptor> make_socket() {
  while (true) {
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket) return socket;
    if (!is_lack_of_descriptors(errno)) return errno_status("making a Unix socket");
    ARROW_RETURN_NOT_OK(make_room(errno, "making a Unix socket"));
  }
}

arrow::Status of_rank(int rank, const arrow::Status& status) {
  if (status.ok() || status.IsCapacityError()) return status;
  return status.WithMessage("rank ", rank, ": ", status.message());
}

arrow::Status has_ended(const std::string& how) {
  return arrow::Status::IOError("it has ended, or meets nobody any more: ", how);
}

}  // namespace

std::string random_text() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != std::ssize(bytes)) return "";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

arrow::Result<Handshakes> Handshakes::listen(int rank, int memory) {
  std::string name = "paceline-" + random_text();
  const auto [address, size] = abstract_address(name);
  ARROW_ASSIGN_OR_RAISE(Descriptor socket, make_socket());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return errno_status("listening at a Unix socket");
  }
  return Handshakes(rank, memory, std::move(socket), std::move(name), random_text());
}

Handshakes::Handshakes(int rank, int memory, Descriptor listener, std::string socket, std::string token)
    : rank_(rank),
      memory_(memory),
      listener_(std::move(listener)),
      socket_(std::move(socket)),
      token_(std::move(token)) {}

Handshakes::Greeting Handshakes::greeting(const std::string& token) const {
  Greeting greeting{.rank = rank_};
  std::copy_n(token.begin(), std::min(token.size(), greeting.token.size()), greeting.token.begin());
  return greeting;
}

arrow::Result<bool> Handshakes::reach(int rank, const std::string& socket, const std::string& token) {
  Contact contact{.rank = rank, .connection = {}, .socket = socket, .token = token, .heard = {}, .memory = {}};
  ARROW_ASSIGN_OR_RAISE(contact.connection, make_socket());
  ARROW_ASSIGN_OR_RAISE(const bool is_there, connect(contact));
  if (is_there) contacts_.push_back(std::move(contact));
  return is_there;
}

arrow::Result<std::vector<Handshakes::Met>> Handshakes::complete(Clock::time_point deadline) {
  while (true) {
    bool is_something_unsaid = false;
    for (Contact& contact : contacts_) {
      ARROW_RETURN_NOT_OK(of_rank(contact.rank, speak(contact)));
      is_something_unsaid = is_something_unsaid || (contact.rank != kStranger && !contact.has_given);
    }
    if (is_complete()) break;

    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return arrow::Status::IOError(missing(), ": it did not go on in time");
    std::vector<pollfd> events{{listener_.get(), POLLIN, 0}};
    for (const Contact& contact : contacts_) {
      const bool is_awaited = contact.is_connected && !contact.memory;
      events.push_back({is_awaited ? contact.connection.get() : -1, POLLIN, 0});
    }
    const auto wait =
        is_something_unsaid ? std::min(left, kTryAgain) : std::min(left, std::chrono::milliseconds(1 << 30));
    if (::poll(events.data(), events.size(), static_cast<int>(wait.count())) < 0) {
      if (errno == EINTR) continue;
      return errno_status("waiting for the ranks of this machine");
    }
    for (size_t i = contacts_.size(); i-- > 0;) {
      if (events[i + 1].revents == 0) continue;
      ARROW_ASSIGN_OR_RAISE(const bool may_stay, hear(contacts_[i]));
      if (!may_stay) contacts_.erase(contacts_.begin() + static_cast<ptrdiff_t>(i));
    }
    if (events.front().revents != 0) ARROW_RETURN_NOT_OK(accept_caller());
  }
  std::vector<Met> met;
  for (Contact& contact : contacts_) {
    if (contact.rank == kStranger) continue;
    met.push_back({contact.rank, std::move(contact.connection), std::move(contact.memory)});
  }
  contacts_.clear();
  return met;
}

bool Handshakes::is_complete() const {
  return expected_.empty() && std::ranges::all_of(contacts_, [](const Contact& contact) {
           return contact.rank == kStranger || contact.is_met();
         });
}

std::string Handshakes::missing() const {
  std::set<int> ranks = expected_;
  for (const Contact& contact : contacts_) {
    if (contact.rank != kStranger && !contact.is_met()) ranks.insert(contact.rank);
  }
  return "rank " + std::to_string(*ranks.begin());
}

// One at a time: where no more descriptors can be had, none is asked for in vain.
arrow::Status Handshakes::accept_caller() {
  Contact caller{.connection = Descriptor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)),
                 .socket = {},
                 .token = token_,
                 .is_connected = true,
                 .heard = {},
                 .memory = {}};
  if (caller.connection) {
    if (!may_connect(caller.connection.get())) return arrow::Status::OK();
    contacts_.push_back(std::move(caller));
    forget_strangers();
    return arrow::Status::OK();
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED) return arrow::Status::OK();
  if (is_lack_of_descriptors(errno)) return make_room(errno, "answering a rank of this machine");
  return errno_status("answering a rank of this machine");
}

// The first has said nothing for longest.
void Handshakes::forget_strangers() {
  const auto is_stranger = [](const Contact& contact) { return contact.rank == kStranger; };
  if (std::ranges::count_if(contacts_, is_stranger) <= kStrangers + std::ssize(expected_)) return;
  contacts_.erase(std::ranges::find_if(contacts_, is_stranger));
}

// False: nobody listens there.
arrow::Result<bool> Handshakes::connect(Contact& contact) const {
  const auto [address, size] = abstract_address(contact.socket);
  contact.is_connected = ::connect(contact.connection.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0;
  return contact.is_connected || errno == EAGAIN;
}

// What can be said now.
arrow::Status Handshakes::speak(Contact& contact) const {
  if (contact.rank == kStranger || contact.has_given) return arrow::Status::OK();
  if (!contact.is_connected) {
    ARROW_ASSIGN_OR_RAISE(const bool is_there, connect(contact));
    if (!is_there) return has_ended("nobody listens any more");
    if (!contact.is_connected) return arrow::Status::OK();
  }
  if (!contact.has_greeted) {
    const Greeting own = greeting(contact.token);
    const auto sent = send_some(contact.connection.get(), std::as_bytes(std::span(&own, 1)), {});
    if (!sent.ok()) return has_ended(sent.status().message());
    if (*sent != sizeof own) return arrow::Status::IOError("it does not read");
    contact.has_greeted = true;
  }
  constexpr std::byte kMemory{};
  const int descriptors[] = {memory_};
  const auto sent = send_some(contact.connection.get(), std::span(&kMemory, 1), descriptors);
  // So many descriptors of this user are on their way that the kernel takes no more until some have arrived.
  if (arrow::internal::ErrnoFromStatus(sent.status()) == ETOOMANYREFS) return arrow::Status::OK();
  if (!sent.ok()) return has_ended(sent.status().message());
  contact.has_given = *sent > 0;
  return arrow::Status::OK();
}

// What has been said. False: a stranger, who may go. Strangers are read without descriptors: theirs take up no room.
arrow::Result<bool> Handshakes::hear(Contact& contact) {
  const auto bytes = std::as_writable_bytes(std::span(&contact.heard, 1));
  if (contact.heard_bytes < bytes.size()) {
    const auto part = bytes.subspan(contact.heard_bytes);
    const ssize_t got = ::recv(contact.connection.get(), part.data(), part.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got <= 0 && contact.rank == kStranger) return false;
    if (got <= 0) return of_rank(contact.rank, has_ended("it has hung up"));
    contact.heard_bytes += static_cast<size_t>(got);
    if (contact.heard_bytes < bytes.size()) return true;
    if (recognise(contact)) return true;
    if (contact.rank == kStranger) return false;
    return arrow::Status::IOError("who answers at rank ", contact.rank, "'s socket is somebody else");
  }
  std::byte memory{};
  auto received = receive_some(contact.connection.get(), std::span(&memory, 1));
  // What a rank sends is one descriptor: it is lost where this process may have no more.
  if (!received.ok())
    return arrow::Status::CapacityError("rank ", contact.rank, "'s memory: ", received.status().message());
  if (received->closed) return of_rank(contact.rank, has_ended("it has hung up"));
  if (received->bytes == 0) return true;
  if (received->descriptors.empty()) return of_rank(contact.rank, arrow::Status::IOError("it has sent no memory"));
  contact.memory = std::move(received->descriptors.front());
  return true;
}

bool Handshakes::recognise(Contact& contact) {
  const std::string_view token(contact.heard.token.data(), contact.heard.token.size());
  if (token != contact.token) return false;
  if (contact.rank != kStranger) return contact.heard.rank == contact.rank;
  if (expected_.erase(contact.heard.rank) == 0) return false;
  contact.rank = contact.heard.rank;
  return true;
}

}  // namespace paceline::collective
