#include "paceline/collective/meeting.h"

#include <sys/socket.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "paceline/collective/handshakes_internal.h"
#include "paceline/core/error.h"
#include "paceline/core/posix/descriptor_limit.h"
#include "paceline/core/posix/kernel_file.h"
#include "paceline/core/posix/pidfd.h"

namespace paceline::collective {
namespace {

using Clock = std::chrono::steady_clock;

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

arrow::Result<Member> member_of(Handshakes::Met met) {
  ARROW_ASSIGN_OR_RAISE(ArenaView view, Arena::open(std::move(met.memory)));
  Member member{
      .rank = met.rank, .arena = std::make_shared<ArenaView>(std::move(view)), .connection = std::move(met.connection)};
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
    ARROW_RETURN_NOT_OK(make_room(/*members=*/1));  // without a descriptor it would not even find out where it runs
    const std::string machine = read_kernel_file("/proc/sys/kernel/random/boot_id");
    own_place_.machine = machine.substr(0, 36);
    own_place_.user = ::geteuid();
    ARROW_ASSIGN_OR_RAISE(Handshakes handshakes,
                          Handshakes::listen(rank_, own_ == nullptr ? -1 : own_->memory().descriptor().get()));
    own_place_.socket = handshakes.socket();
    own_place_.token = handshakes.token();
    bulletin_.set(key("place", rank_), encode(own_place_));
    ARROW_RETURN_NOT_OK(read_places());
    for (int rank = 0; rank < world_size_; ++rank) {
      const std::string& missing = places_[static_cast<size_t>(rank)].missing;
      if (!missing.empty()) return Meeting{.missing = "rank " + std::to_string(rank) + ": " + missing};
    }
    ARROW_RETURN_NOT_OK(
        make_room(std::ranges::count_if(places_, [this](const Place& place) { return may_share(place); })));
    ARROW_RETURN_NOT_OK(reach_higher_ranks(handshakes));
    expect_lower_ranks(handshakes);
    ARROW_ASSIGN_OR_RAISE(auto met, handshakes.complete(deadline_));
    for (Handshakes::Met& one : met) ARROW_RETURN_NOT_OK(attach(std::move(one)));
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

  arrow::Status read_places() {
    for (int rank = 0; rank < world_size_; ++rank) {
      ARROW_ASSIGN_OR_RAISE(places_.emplace_back(), decode_place(left_by(rank, "place")));
    }
    return arrow::Status::OK();
  }

  bool may_share(const Place& place) const {
    const bool is_let_in = own_place_.user == place.user || own_place_.user == 0;  // as may_connect() has it there
    return place.machine == own_place_.machine && place.node == own_place_.node && is_let_in;
  }

  // For what members have open.
  static arrow::Status make_room(int64_t members) {
    constexpr int64_t kOfMember = 3;
    const arrow::Status room = reserve_descriptors(kOfMember * members);
    return room.ok() ? room : arrow::Status::CapacityError(room.message());
  }

  // Says at once whom it has reached: nobody may wait for word of who waits for them.
  arrow::Status reach_higher_ranks(Handshakes& handshakes) const {
    std::vector<int> reached;
    for (int rank = rank_ + 1; rank < world_size_; ++rank) {
      const Place& place = places_[static_cast<size_t>(rank)];
      if (!may_share(place)) continue;
      ARROW_ASSIGN_OR_RAISE(const bool is_there, handshakes.reach(rank, place.socket, place.token));
      if (is_there) reached.push_back(rank);
    }
    bulletin_.set(key("reached", rank_), nlohmann::json(reached).dump());
    return arrow::Status::OK();
  }

  void expect_lower_ranks(Handshakes& handshakes) const {
    for (int rank = 0; rank < rank_; ++rank) {
      const std::vector<int> reached = decode_ranks(left_by(rank, "reached"));
      if (std::ranges::find(reached, rank_) != reached.end()) handshakes.expect(rank);
    }
  }

  // One whose memory has no place in this process's address space is a rank of another node.
  arrow::Status attach(Handshakes::Met met) {
    auto member = member_of(std::move(met));
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
  auto meeting = Gathering(bulletin, rank, world_size, own, Clock::now() + timeout, node).meet();
  if (meeting.status().IsCapacityError()) {
    throw CollectiveError("rank " + std::to_string(rank) + " of " + std::to_string(world_size) +
                              " cannot meet the others: " + meeting.status().message(),
                          CollectiveCause::this_rank);
  }
  return meeting;
}

}  // namespace paceline::collective
