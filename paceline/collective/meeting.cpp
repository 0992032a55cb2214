#include "paceline/collective/meeting.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "paceline/core/error.h"
#include "paceline/core/posix/kernel_file.h"
#include "paceline/core/posix/pidfd.h"
#include "paceline/core/posix/socket_pair.h"
#include "paceline/core/posix/unix_address.h"

namespace paceline::collective {
namespace {

using Clock = std::chrono::steady_clock;

// What a rank says first over a connection: who it is, and what only those know who read the bulletin.
struct Greeting {
  int32_t rank = 0;
  std::array<char, 32> token{};
};

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

std::pair<sockaddr_un, socklen_t> abstract_address(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

// A rank's place to be found.
struct Place {
  std::string missing;  // why it has no memory to share; "": it has
  std::string machine;
  int64_t user = 0;
  std::string node;
  std::string socket;
  std::string token;
};

std::string encode(const Place& place) {
  return nlohmann::json{{"missing", place.missing}, {"machine", place.machine}, {"user", place.user},
                        {"node", place.node},       {"socket", place.socket},   {"token", place.token}}
      .dump();
}

arrow::Result<Place> decode_place(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return arrow::Status::Invalid("a rank has left no address on the bulletin: ", text);
  return Place{json.value("missing", ""), json.value("machine", ""), json.value("user", int64_t{0}),
               json.value("node", ""),    json.value("socket", ""),  json.value("token", "")};
}

std::vector<int> decode_ranks(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_array() ? json.get<std::vector<int>>() : std::vector<int>();
}

arrow::Result<Descriptor> listen_at(const std::string& name) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno_status("making a Unix socket");
  const auto [address, size] = abstract_address(name);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(socket.get(), kMostRanks) != 0) {
    return errno_status("listening at a Unix socket");
  }
  return socket;
}

// None where nobody listens: the other rank is elsewhere.
Descriptor connect_to(const std::string& name) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto [address, size] = abstract_address(name);
  if (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) return {};
  return socket;
}

arrow::Status wait_readable(int descriptor, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd event{descriptor, POLLIN, 0};
    const int ready = left.count() < 0 ? 0 : ::poll(&event, 1, static_cast<int>(left.count()));
    if (ready > 0) return arrow::Status::OK();
    if (ready == 0) return arrow::Status::IOError("a rank of this machine did not go on in time");
    if (errno != EINTR) return errno_status("waiting for a rank of this machine");
  }
}

arrow::Status send_greeting(int socket, int rank, const std::string& token, int memory) {
  Greeting greeting{.rank = rank};
  std::copy_n(token.begin(), std::min(token.size(), greeting.token.size()), greeting.token.begin());
  const auto bytes = std::as_bytes(std::span(&greeting, 1));
  const int descriptors[] = {memory};
  ARROW_ASSIGN_OR_RAISE(const size_t sent, send_some(socket, bytes, descriptors));
  return sent == bytes.size() ? arrow::Status::OK() : arrow::Status::IOError("a rank of this machine does not read");
}

struct Greeted {
  Greeting greeting;
  Descriptor memory;
};

arrow::Result<Greeted> receive_greeting(int socket, Clock::time_point deadline) {
  Greeted greeted;
  const auto bytes = std::as_writable_bytes(std::span(&greeted.greeting, 1));
  for (size_t got = 0; got < bytes.size();) {
    ARROW_RETURN_NOT_OK(wait_readable(socket, deadline));
    ARROW_ASSIGN_OR_RAISE(Received part, receive_some(socket, bytes.subspan(got)));
    if (part.closed) return arrow::Status::IOError("a rank of this machine has hung up");
    got += part.bytes;
    if (!part.descriptors.empty()) greeted.memory = std::move(part.descriptors.front());
  }
  if (!greeted.memory) return arrow::Status::IOError("a rank of this machine has sent no memory");
  return greeted;
}

arrow::Status of_rank(int rank, const arrow::Status& status) {
  return status.ok() ? status : status.WithMessage("rank ", rank, ": ", status.message());
}

bool has_token(const Greeting& greeting, const std::string& token) {
  return std::string_view(greeting.token.data(), greeting.token.size()) == token;
}

arrow::Result<Member> member_of(int rank, Descriptor connection, Descriptor memory) {
  ARROW_ASSIGN_OR_RAISE(ArenaView view, Arena::open(std::move(memory)));
  Member member{
      .rank = rank, .arena = std::make_shared<ArenaView>(std::move(view)), .connection = std::move(connection)};
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(member.connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) member.process = peer.pid;
  if (member.process > 0) {
    auto pidfd = open_pidfd(static_cast<pid_t>(member.process));
    if (pidfd.ok()) member.pidfd = *std::move(pidfd);
  }
  return member;
}

std::string key(const char* what, int rank) {
  return std::string(what) + "/" + std::to_string(rank);
}

class Gathering {
 public:
  Gathering(const Bulletin& bulletin, int rank, int world_size, const arrow::Result<std::shared_ptr<Arena>>& own,
            Clock::time_point deadline, const std::string& node)
      : bulletin_(bulletin), rank_(rank), world_size_(world_size), deadline_(deadline) {
    own_place_.node = node;
    if (own.ok()) {
      own_ = own->get();
    } else {
      own_place_.missing = own.status().message();
    }
  }

  arrow::Result<Meeting> meet() {
    const std::string machine = read_kernel_file("/proc/sys/kernel/random/boot_id");
    own_place_.machine = machine.substr(0, 36);
    own_place_.user = ::geteuid();
    own_place_.socket = "paceline-" + random_text();
    own_place_.token = random_text();
    ARROW_ASSIGN_OR_RAISE(const Descriptor listener, listen_at(own_place_.socket));
    bulletin_.set(key("place", rank_), encode(own_place_));
    ARROW_RETURN_NOT_OK(read_places());
    for (int rank = 0; rank < world_size_; ++rank) {
      const std::string& missing = places_[static_cast<size_t>(rank)].missing;
      if (!missing.empty()) return Meeting{.missing = "rank " + std::to_string(rank) + ": " + missing};
    }
    ARROW_RETURN_NOT_OK(reach_higher_ranks());
    expect_lower_ranks();
    while (!expected_.empty()) ARROW_RETURN_NOT_OK(let_in(listener.get()));
    for (auto& [rank, connection] : reached_) {
      auto heard = receive_greeting(connection.get(), deadline_);
      ARROW_RETURN_NOT_OK(of_rank(rank, heard.status()));
      Greeted greeted = *std::move(heard);
      if (greeted.greeting.rank != rank || !has_token(greeted.greeting, places_[static_cast<size_t>(rank)].token)) {
        return arrow::Status::IOError("who answers at rank ", rank, "'s socket is somebody else");
      }
      ARROW_RETURN_NOT_OK(attach(rank, std::move(connection), std::move(greeted.memory)));
    }
    return agree_on_nodes();
  }

 private:
  // The store knows keys, and not for whom they stand.
  std::string left_by(int rank, const char* what) const {
    const auto in_vain = [&](const std::exception& error) {
      const std::string text = error.what();  // of a c10d store with LibTorch's stack in further lines
      return "rank " + std::to_string(rank_) + " of " + std::to_string(world_size_) + " cannot meet rank " +
             std::to_string(rank) + ", which has not come this far: " + text.substr(0, text.find('\n'));
    };
    try {
      return bulletin_.get(key(what, rank), deadline_);
    } catch (const CollectiveError& error) {
      throw CollectiveError(in_vain(error), error.cause());
    } catch (const std::exception& error) {
      throw CollectiveError(in_vain(error), CollectiveCause::other_rank);
    }
  }

  arrow::Status greet(int connection, const std::string& token) const {
    const arrow::Status sent = send_greeting(connection, rank_, token, own_->memory().descriptor().get());
    return sent.ok() ? sent : sent.WithMessage("it has ended, or meets nobody any more: ", sent.message());
  }

  arrow::Status read_places() {
    for (int rank = 0; rank < world_size_; ++rank) {
      ARROW_ASSIGN_OR_RAISE(places_.emplace_back(), decode_place(left_by(rank, "place")));
    }
    return arrow::Status::OK();
  }

  // As may_connect() has it at the other end.
  bool may_be_let_in(const Place& place) const { return own_place_.user == place.user || own_place_.user == 0; }

  arrow::Status reach_higher_ranks() {
    std::vector<int> reached;
    for (int rank = rank_ + 1; rank < world_size_; ++rank) {
      const Place& place = places_[static_cast<size_t>(rank)];
      if (place.machine != own_place_.machine || place.node != own_place_.node || !may_be_let_in(place)) continue;
      Descriptor connection = connect_to(place.socket);
      if (!connection) continue;
      ARROW_RETURN_NOT_OK(of_rank(rank, greet(connection.get(), place.token)));
      reached.push_back(rank);
      reached_.emplace_back(rank, std::move(connection));
    }
    bulletin_.set(key("reached", rank_), nlohmann::json(reached).dump());
    return arrow::Status::OK();
  }

  void expect_lower_ranks() {
    for (int rank = 0; rank < rank_; ++rank) {
      const std::vector<int> reached = decode_ranks(left_by(rank, "reached"));
      if (std::ranges::find(reached, rank_) != reached.end()) expected_.insert(rank);
    }
  }

  // The next of those who are expected; a stranger costs a connection.
  arrow::Status let_in(int listener) {
    while (true) {
      ARROW_RETURN_NOT_OK(of_rank(*expected_.begin(), wait_readable(listener, deadline_)));
      Descriptor connection(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
      if (!connection || !may_connect(connection.get())) continue;
      auto greeted = receive_greeting(connection.get(), deadline_);
      if (!greeted.ok()) continue;
      const int rank = greeted->greeting.rank;
      if (!has_token(greeted->greeting, own_place_.token) || expected_.erase(rank) == 0) continue;
      ARROW_RETURN_NOT_OK(of_rank(rank, greet(connection.get(), own_place_.token)));
      return attach(rank, std::move(connection), std::move(greeted->memory));
    }
  }

  // One whose memory has no place in this process's address space is a rank of another node.
  arrow::Status attach(int rank, Descriptor connection, Descriptor memory) {
    auto member = member_of(rank, std::move(connection), std::move(memory));
    if (member.status().IsInvalid()) return member.status();
    if (member.ok()) members_.push_back(*std::move(member));
    return arrow::Status::OK();
  }

  Meeting agree_on_nodes() {
    std::vector<int> own{rank_};
    for (const Member& member : members_) own.push_back(member.rank);
    bulletin_.set(key("attached", rank_), nlohmann::json(own).dump());
    std::vector<std::vector<int>> attached;
    for (int rank = 0; rank < world_size_; ++rank) {
      attached.push_back(decode_ranks(left_by(rank, "attached")));
    }
    Meeting meeting{.nodes = ranks_by_node(attached)};
    meeting.ranks = *std::ranges::find_if(
        meeting.nodes, [&](const auto& node) { return std::ranges::find(node, rank_) != node.end(); });
    std::ranges::sort(members_, {}, &Member::rank);
    for (Member& member : members_) {
      if (std::ranges::find(meeting.ranks, member.rank) != meeting.ranks.end()) {
        meeting.members.push_back(std::move(member));
      }
    }
    return meeting;
  }

  const Bulletin& bulletin_;
  const int rank_;
  const int world_size_;
  const Arena* own_ = nullptr;
  const Clock::time_point deadline_;
  Place own_place_;
  std::vector<Place> places_;
  std::vector<std::pair<int, Descriptor>> reached_;
  std::set<int> expected_;
  std::vector<Member> members_;
};

}  // namespace

std::vector<std::vector<int>> ranks_by_node(const std::vector<std::vector<int>>& attached) {
  const auto has_attached = [&](int one, int other) {
    const auto& list = attached[static_cast<size_t>(one)];
    return std::ranges::find(list, other) != list.end();
  };
  std::vector<std::vector<int>> nodes;
  for (int rank = 0; rank < std::ssize(attached); ++rank) {
    const auto home = std::ranges::find_if(nodes, [&](const std::vector<int>& node) {
      return std::ssize(node) < kMostRanks &&
             std::ranges::all_of(
                 node, [&](int member) { return has_attached(rank, member) && has_attached(member, rank); });
    });
    if (home == nodes.end()) {
      nodes.push_back({rank});
    } else {
      home->push_back(rank);
    }
  }
  return nodes;
}

arrow::Result<Meeting> meet(const Bulletin& bulletin, int rank, int world_size,
                            const arrow::Result<std::shared_ptr<Arena>>& own, std::chrono::milliseconds timeout,
                            const std::string& node) {
  return Gathering(bulletin, rank, world_size, own, Clock::now() + timeout, node).meet();
}

}  // namespace paceline::collective
