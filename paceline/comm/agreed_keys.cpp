#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>
#include <vector>

#include "paceline/comm/agreed_keys_internal.h"
#include "paceline/core/error.h"
#include "paceline/core/peer_lost.h"

namespace paceline::comm {
namespace {

using Clock = std::chrono::steady_clock;
using StorePointer = c10::intrusive_ptr<c10d::Store>;

// How long rank 0 waits for a line whose number is taken before it looks whether its writer may have ended in between.
constexpr std::chrono::milliseconds kLook{1000};

std::string random_name() {
  std::random_device device;
  return std::to_string(device()) + "_" + std::to_string(device());
}

// What all ranks tell rank 0, line by line in one order, and what it tells each of them. A line is numbered before it
// is written: of who ends in between the number stays without one.
class Talk {
 public:
  Talk(const StorePointer& given, int64_t rank, int64_t world_size, std::chrono::milliseconds timeout)
      : store_(c10::make_intrusive<c10d::PrefixStore>("paceline_made/" + std::to_string(world_size), given)),
        rank_(rank),
        world_size_(world_size),
        timeout_(timeout) {}

 protected:
  std::string text_at(const std::string& key) const {
    const auto bytes = store_->get(key);
    return {bytes.begin(), bytes.end()};
  }
  void write(const std::string& key, const std::string& text) const {
    store_->set(key, std::vector<uint8_t>(text.begin(), text.end()));
  }

  // Whether it is there within `most`, and before the deadline.
  bool wait_for(const std::string& key, std::optional<std::chrono::milliseconds> most) const {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now());
    if (most) left = std::min(left, *most);
    try {
      store_->wait({key}, std::max(left, std::chrono::milliseconds(1)));
    } catch (const c10::DistStoreError&) {  // with time left it is no timeout
      if (!most && Clock::now() < deadline_) throw;
      return false;
    }
    return true;
  }

  [[noreturn]] void fail(const std::vector<int64_t>& missing) const {
    throw CollectiveError("rank " + std::to_string(rank_) + " of " + std::to_string(world_size_) + " cannot meet " +
                              names_of_ranks(missing) + ": no word for this group within " +
                              std::to_string(timeout_.count()) + " ms",
                          CollectiveCause::other_rank);
  }

  const StorePointer store_;
  const int64_t rank_, world_size_;
  const std::chrono::milliseconds timeout_;
  const Clock::time_point deadline_ = Clock::now() + timeout_;
};

class RankZero : Talk {
 public:
  using Talk::Talk;

  // Reads on until all that have come last have the same name.
  std::string agree() {
    if (store_->check({"begin"})) next_ = std::stoll(text_at("begin"));
    while (std::ssize(acknowledged_) < world_size_ - 1) read_next();
    write("begin", std::to_string(next_));
    for (const auto& [rank, name] : names_) tell(name, kMade);
    return round_;
  }

  static constexpr const char* kMade = "made";

 private:
  static std::string key_of(int64_t line) { return "line/" + std::to_string(line); }

  void read_next() {
    if (wait_for(key_of(next_), kLook)) return read(text_at(key_of(next_++)));
    std::erase_if(skipped_, [this](int64_t line) {  // written after all
      const bool is_there = store_->check({key_of(line)});
      if (is_there) read(text_at(key_of(line)));
      return is_there;
    });
    if (Clock::now() >= deadline_) fail(missing());
    if (store_->add("lines", 0) > next_) skipped_.push_back(next_++);
  }

  void read(const std::string& line) {
    std::istringstream words(line);
    std::string what, name, round;
    int64_t rank = 0;
    words >> what >> rank >> name >> round;
    if (what == "comes") {
      names_[rank] = name;
      begin_round();
    } else if (round == round_ && names_[rank] == name) {
      acknowledged_.insert(rank);
    }
  }

  void begin_round() {
    acknowledged_.clear();
    if (std::ssize(names_) < world_size_ - 1) return;
    round_ = random_name();
    for (const auto& [rank, name] : names_) tell(name, round_);
  }

  void tell(const std::string& name, const std::string& text) {
    write("to/" + name + "/" + std::to_string(store_->add("told/" + name, 1)), text);
  }

  std::vector<int64_t> missing() const {
    std::vector<int64_t> ranks;
    for (int64_t rank = 1; rank < world_size_; ++rank) {
      if (!acknowledged_.contains(rank)) ranks.push_back(rank);
    }
    return ranks;
  }

  int64_t next_ = 1;
  std::vector<int64_t> skipped_;
  std::map<int64_t, std::string> names_;  // by which the process that came last for a rank is told
  std::string round_;                     // the name of the keys that they are told
  std::set<int64_t> acknowledged_;
};

class OtherRank : Talk {
 public:
  using Talk::Talk;

  std::string agree() {
    say("comes");
    std::string round;
    for (int64_t told = 1;; ++told) {
      const std::string key = "to/" + name_ + "/" + std::to_string(told);
      if (!wait_for(key, std::nullopt)) fail({0});
      const std::string text = text_at(key);
      if (text == RankZero::kMade) return round;
      round = text;
      say("has", round);
    }
  }

 private:
  void say(const std::string& what, const std::string& round = "") {
    const std::string line = what + " " + std::to_string(rank_) + " " + name_ + " " + round;
    write("line/" + std::to_string(store_->add("lines", 1)), line);
  }

  const std::string name_ = random_name();
};

}  // namespace

StorePointer agree_on_keys(const StorePointer& given, int64_t rank, int64_t world_size,
                           std::chrono::milliseconds timeout) {
  std::string name;
  if (world_size == 1) {
    name = random_name();
  } else if (rank == 0) {
    name = RankZero(given, rank, world_size, timeout).agree();
  } else {
    name = OtherRank(given, rank, world_size, timeout).agree();
  }
  return c10::make_intrusive<c10d::PrefixStore>("paceline_made_" + name, given);
}

}  // namespace paceline::comm
