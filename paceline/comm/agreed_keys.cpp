#include <algorithm>
#include <map>
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

// How long who has the next number waits for a line before it takes its writer for dead.
constexpr std::chrono::milliseconds kGrace{500};

std::string random_name() {
  std::random_device device;
  return std::to_string(device()) + "_" + std::to_string(device());
}

// Waits until the key is there or the deadline passes; whether it is there. A store's own errors are thrown; each kind
// of store has its own for a wait that was too long.
bool wait_for(c10d::Store& store, const std::string& key, Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  try {
    store.wait({key}, std::max(left, std::chrono::milliseconds(1)));
    return true;
  } catch (const std::exception&) {
    if (store.check({key})) return true;
    if (Clock::now() < deadline) throw;
    return false;
  }
}

// Lines that many processes write, each with a number, and others read in their order. Whoever is killed between its
// number and its line would leave a hole: the next in order marks it as left. So where a line is, or a mark, all before
// it are there; who was only slow takes another number.
class Lines {
 public:
  Lines(StorePointer store, std::string name, Clock::time_point deadline)
      : store_(std::move(store)), name_(std::move(name)), deadline_(deadline) {}

  /// The text is one that nobody else writes. False at the deadline.
  bool write(const std::string& text) const {
    const std::vector<uint8_t> bytes(text.begin(), text.end());
    while (true) {
      const int64_t number = store_->add(name_ + "/last", 1);
      if (!fill_up_to(number)) return false;
      if (store_->compareSet(key(number), {}, bytes) != bytes) continue;
      store_->set(key(number), bytes);  // not every store wakes who waits when compareSet() has made a key
      return true;
    }
  }

  bool is_there(int64_t number) const { return store_->check({key(number)}); }
  bool wait(int64_t number) const { return wait_for(*store_, key(number), deadline_); }
  /// Of one that is there; "" where it was left.
  std::string read(int64_t number) const {
    const auto bytes = store_->get(key(number));
    std::string text(bytes.begin(), bytes.end());
    return text == kLeft ? "" : text;
  }

 private:
  static constexpr const char* kLeft = "-";

  std::string key(int64_t number) const { return name_ + "/" + std::to_string(number); }

  bool fill_up_to(int64_t number) const {
    const std::string text = kLeft;
    const std::vector<uint8_t> left(text.begin(), text.end());
    while (number > 1 && !wait_for(*store_, key(number - 1), std::min(deadline_, Clock::now() + kGrace))) {
      if (Clock::now() >= deadline_) return false;
      int64_t there = 0, hole = number - 1;  // the first hole is between them
      while (hole - there > 1) {
        const int64_t middle = there + (hole - there) / 2;
        (is_there(middle) ? there : hole) = middle;
      }
      const auto found = store_->compareSet(key(hole), {}, left);
      store_->set(key(hole), found);
    }
    return true;
  }

  const StorePointer store_;
  const std::string name_;
  const Clock::time_point deadline_;
};

// What all ranks tell rank 0 in lines of one list, and what it tells each process in lines of its own:
//   "comes RANK NAME"       a process is there for a rank
//   "has RANK NAME ROUND"   it has heard of the keys "ROUND" last
class Talk {
 public:
  Talk(const StorePointer& given, int64_t rank, int64_t world_size, std::chrono::milliseconds timeout)
      : store_(c10::make_intrusive<c10d::PrefixStore>("paceline_made/" + std::to_string(world_size), given)),
        rank_(rank),
        world_size_(world_size),
        timeout_(timeout),
        lines_(store_, "line", deadline_) {}

 protected:
  Lines lines_to(const std::string& name) const { return {store_, "to/" + name, deadline_}; }

  // The lines before it are of groups that have met.
  int64_t first_line() const {
    if (!store_->check({kBegin})) return 1;
    const auto bytes = store_->get(kBegin);
    return std::stoll(std::string(bytes.begin(), bytes.end()));
  }
  void set_first_line(int64_t number) const {
    const std::string text = std::to_string(number);
    store_->set(kBegin, std::vector<uint8_t>(text.begin(), text.end()));
  }

  void say(const std::string& text) const {
    if (!lines_.write(text)) fail({});
  }

  // `unheard`: who is missing where all have come.
  [[noreturn]] void fail(std::vector<int64_t> unheard) const {
    std::vector<int64_t> missing = not_come();
    if (missing.empty()) missing = std::move(unheard);
    throw CollectiveError("rank " + std::to_string(rank_) + " of " + std::to_string(world_size_) +
                              " cannot meet the others" + for_want_of(missing) + ": no word within " +
                              std::to_string(timeout_.count()) + " ms",
                          CollectiveCause::other_rank);
  }

  static constexpr const char* kBegin = "begin";
  static constexpr const char* kMade = "made ";

  const StorePointer store_;
  const int64_t rank_, world_size_;
  const std::chrono::milliseconds timeout_;
  const Clock::time_point deadline_ = Clock::now() + timeout_;
  const Lines lines_;
  const std::string name_ = random_name();  // of this process

 private:
  std::vector<int64_t> not_come() const {
    std::set<int64_t> come{rank_};
    for (int64_t number = first_line(); lines_.is_there(number); ++number) {
      std::istringstream words(lines_.read(number));
      std::string what;
      int64_t rank = 0;
      if (words >> what >> rank) come.insert(rank);
    }
    std::vector<int64_t> missing;
    for (int64_t rank = 0; rank < world_size_; ++rank) {
      if (!come.contains(rank)) missing.push_back(rank);
    }
    return missing;
  }
};

class RankZero : Talk {
 public:
  using Talk::Talk;

  // Reads on until those that have come last for each rank all have the keys, and nobody has come since.
  std::string agree() {
    say("comes 0 " + name_);
    for (next_ = first_line(); std::ssize(having_) < world_size_ - 1 || lines_.is_there(next_); ++next_) {
      if (!lines_.wait(next_)) fail(not_having());
      read(lines_.read(next_));
    }
    for (const auto& [rank, name] : names_) tell(name, kMade + name_);
    set_first_line(next_);
    return name_;
  }

 private:
  void read(const std::string& line) {
    std::istringstream words(line);
    std::string what, name, round;
    int64_t rank = 0;
    words >> what >> rank >> name >> round;
    if (rank == 0) return;
    if (what == "comes") {
      names_[rank] = name;
      having_.erase(rank);
      tell(name, name_);
    } else if (names_[rank] == name) {
      round == name_ ? (void)having_.insert(rank) : (void)having_.erase(rank);
    }
  }

  void tell(const std::string& name, const std::string& text) const {
    if (!lines_to(name).write(text)) fail(not_having());
  }

  std::vector<int64_t> not_having() const {
    std::vector<int64_t> ranks;
    for (int64_t rank = 1; rank < world_size_; ++rank) {
      if (!having_.contains(rank)) ranks.push_back(rank);
    }
    return ranks;
  }

  int64_t next_ = 1;
  std::map<int64_t, std::string> names_;  // by which the process that came last for a rank is told
  std::set<int64_t> having_;
};

class OtherRank : Talk {
 public:
  using Talk::Talk;

  std::string agree() {
    const std::string self = std::to_string(rank_) + " " + name_;
    say("comes " + self);
    const Lines told = lines_to(name_);
    std::string round;
    for (int64_t number = 1;; ++number) {
      if (!told.wait(number)) fail({0});
      const std::string text = told.read(number);
      if (text == kMade + round) return round;
      if (text.empty() || text.starts_with(kMade)) continue;  // of an earlier rank 0
      round = text;
      say("has " + self + " " + round);
    }
  }
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
