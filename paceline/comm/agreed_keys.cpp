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
using Bytes = std::vector<uint8_t>;

// How long a wait goes on before it looks around, at least: a part of the time that it has. Then twice as long, up to
// the most, and not for so large a part of what is left that who is replaced late could not be met. Each look at a
// TCPStore is two lines in the log.
constexpr std::chrono::milliseconds kMostOfTheFirst{5'000}, kMostOfAll{60'000};
constexpr int kFirstPart = 50, kPartOfWhatIsLeft = 4;
// By which a wait of a store may be too short.
constexpr std::chrono::milliseconds kEarly{20};

// How long who gives up waits for what rank 0 says to that, at most.
constexpr std::chrono::milliseconds kAnswer{1'000};

std::string random_name() {
  std::random_device device;
  return std::to_string(device()) + "_" + std::to_string(device());
}

Bytes bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string text_at(c10d::Store& store, const std::string& key) {
  const Bytes bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

// Waits for the key; false at the deadline. `look` is called now and then meanwhile; where it gives true, so is the
// answer. A store's own errors are thrown; each kind of store has its own for a wait that was too long, and some do not
// wake who waits for what compareSet() has made.
template <class Look>
bool wait_for(c10d::Store& store, const std::string& key, Clock::time_point deadline, const Look& look) {
  const auto first = std::min<Clock::duration>(kMostOfTheFirst, (deadline - Clock::now()) / kFirstPart);
  for (auto most = first;; most = std::min<Clock::duration>(2 * most, kMostOfAll)) {
    const auto of_what_is_left = std::max(first, (deadline - Clock::now()) / kPartOfWhatIsLeft);
    const auto until = std::min(deadline, Clock::now() + std::min(most, of_what_is_left));
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    try {
      store.wait({key}, std::max(left, std::chrono::milliseconds(1)));
      return true;
    } catch (const std::exception&) {
      if (store.check({key})) return true;
      if (Clock::now() + kEarly < until) throw;
    }
    if (look()) return true;
    if (Clock::now() >= deadline) return false;
  }
}

// Lines that many processes write, each with a number, and one reads in their order. Whoever is killed between its
// number and its line leaves a hole: who reads marks it as left once another has a later number. Who was only slow then
// takes a new one.
class Lines {
 public:
  Lines(StorePointer store, std::string name) : store_(std::move(store)), name_(std::move(name)) {}

  /// The text is one that nobody else writes.
  void write(const std::string& text) const {
    const Bytes bytes = bytes_of(text);
    std::string key = key_of(take_number());
    while (store_->compareSet(key, {}, bytes) != bytes) key = key_of(take_number());
    store_->set(key, bytes);  // not every store wakes who waits when compareSet() has made a key
  }

  /// Or a later one is, so that this one will be, or is left.
  bool is_there(int64_t number) const { return store_->check({key_of(number)}) || store_->add(last_, 0) > number; }
  /// False at the deadline.
  bool wait(int64_t number, Clock::time_point deadline) const {
    return wait_for(*store_, key_of(number), deadline, [&] {
      return store_->add(last_, 0) > number && !store_->compareSet(key_of(number), {}, bytes_of(kLeft)).empty();
    });
  }
  /// Of one that is there; "" where it was left.
  std::string read(int64_t number) const {
    const std::string text = text_at(*store_, key_of(number));
    return text == kLeft ? "" : text;
  }

 private:
  static constexpr const char* kLeft = "-";

  std::string key_of(int64_t number) const { return name_ + "/" + std::to_string(number); }
  int64_t take_number() const { return store_->add(last_, 1); }

  const StorePointer store_;
  const std::string name_;
  const std::string last_ = name_ + "/last";
};

// What all ranks tell rank 0 in lines of one list:
//   "comes RANK NAME"       a process is there for a rank
//   "has RANK NAME ROUND"   it has heard of the keys "ROUND" last
//   "goes RANK NAME"        it gives up; rank 0 answers with the key "left/NAME"
// Rank 0 tells each process "ROUND" in lines of its own, or that another has come for its rank, and all that are in it,
// by the key "made/ROUND", that all are, or whom it gives up for want of.
class Talk {
 public:
  Talk(const StorePointer& given, int64_t rank, int64_t world_size, std::chrono::milliseconds timeout)
      : store_(c10::make_intrusive<c10d::PrefixStore>("paceline_made/" + std::to_string(world_size), given)),
        rank_(rank),
        world_size_(world_size),
        timeout_(std::min<std::chrono::milliseconds>(timeout, std::chrono::years(10))),
        lines_(store_, "line") {}

 protected:
  Lines lines_to(const std::string& name) const { return {store_, "to/" + name}; }
  static constexpr const char* kReplaced = "replaced";
  static constexpr const char* kAll = "all";
  static std::string made(const std::string& round) { return "made/" + round; }
  static std::string left(const std::string& name) { return "left/" + name; }

  [[noreturn]] void fail(const std::vector<int64_t>& ranks) const {
    give_up(for_want_of(ranks) + ": no word within " + std::to_string(timeout_.count()) + " ms");
  }
  [[noreturn]] void give_up(const std::string& reason) const {
    throw CollectiveError(
        "rank " + std::to_string(rank_) + " of " + std::to_string(world_size_) + " cannot meet the others" + reason,
        CollectiveCause::other_rank);
  }

  const StorePointer store_;
  const int64_t rank_, world_size_;
  const std::chrono::milliseconds timeout_;
  const Clock::time_point begin_ = Clock::now();
  const Lines lines_;
  const std::string name_ = random_name();  // of this process
};

class RankZero : Talk {
 public:
  using Talk::Talk;

  // Reads on until those that have come last for each rank all have the keys, and nobody has come since.
  std::string agree() {
    // A little before the others, which name those for want of whom it gives up.
    const auto deadline = begin_ + timeout_ - std::min<std::chrono::milliseconds>(timeout_ / 10, kMostAhead);
    // The lines before that one are of groups that have met.
    int64_t next = store_->check({kBegin}) ? std::stoll(text_at(*store_, kBegin)) : 1;
    for (; std::ssize(having_) < world_size_ - 1 || lines_.is_there(next); ++next) {
      const bool is_late = std::ssize(having_) < world_size_ - 1 && Clock::now() >= deadline;  // a slow store
      if (is_late || !lines_.wait(next, deadline)) {
        store_->set(made(name_), bytes_of(missing()));
        fail(missing_ranks());
      }
      read(lines_.read(next));
    }
    store_->set(made(name_), bytes_of(kAll));
    store_->set(kBegin, bytes_of(std::to_string(next)));
    return name_;
  }

 private:
  static constexpr std::chrono::milliseconds kMostAhead{5'000};
  static constexpr const char* kBegin = "begin";

  void read(const std::string& line) {
    std::istringstream words(line);
    std::string what, name, round;
    int64_t rank = 0;
    words >> what >> rank >> name >> round;
    if (what == "comes") {
      if (const std::string before = std::exchange(names_[rank], name); !before.empty()) {
        lines_to(before).write(kReplaced);
      }
      having_.erase(rank);
      gone_.erase(rank);
      lines_to(name).write(name_);
    } else if (what == "has" && names_[rank] == name) {
      round == name_ ? (void)having_.insert(rank) : (void)having_.erase(rank);
    } else if (what == "goes" && names_[rank] == name) {
      names_.erase(rank);
      having_.erase(rank);
      gone_.insert(rank);
      store_->set(left(name), bytes_of(missing()));
    }
  }

  // Not those that have given up for want of others, if there are any.
  std::vector<int64_t> missing_ranks() const {
    std::vector<int64_t> ranks;
    for (int64_t rank = 1; rank < world_size_; ++rank) {
      if (!having_.contains(rank) && !gone_.contains(rank)) ranks.push_back(rank);
    }
    return ranks.empty() ? std::vector(gone_.begin(), gone_.end()) : ranks;
  }

  std::string missing() const {
    std::string text = "without";
    for (const int64_t rank : missing_ranks()) text += " " + std::to_string(rank);
    return text;
  }

  std::map<int64_t, std::string> names_;  // by which the process that came last for a rank is told
  std::set<int64_t> having_, gone_;
};

class OtherRank : Talk {
 public:
  using Talk::Talk;

  std::string agree() {
    const std::string self = std::to_string(rank_) + " " + name_;
    lines_.write("comes " + self);
    const auto deadline = begin_ + timeout_;
    const Lines told = lines_to(name_);
    for (int64_t number = 1;; ++number) {
      if (!told.wait(number, deadline)) fail({0});
      const std::string round = told.read(number);
      if (round.empty()) continue;
      if (round == kReplaced) give_up(": another process has come for this rank");
      if (Clock::now() >= deadline) fail({0});
      lines_.write("has " + self + " " + round);
      const auto has_heard_more = [&] { return told.is_there(number + 1); };  // of another process for rank 0
      if (!wait_for(*store_, made(round), deadline, has_heard_more)) {
        fail(go(self, round));
      }
      if (has_heard_more()) continue;
      if (text_at(*store_, made(round)) == kAll) return round;
      fail(missing_in(made(round)));
    }
  }

 private:
  // Gives up. Whom rank 0 misses; itself where it does not say, or the store is gone with it.
  std::vector<int64_t> go(const std::string& self, const std::string& round) const {
    try {
      lines_.write("goes " + self);
      const auto deadline = Clock::now() + std::min(kAnswer, timeout_);
      if (wait_for(*store_, left(name_), deadline, [] { return false; })) return missing_in(left(name_));
      return store_->check({made(round)}) ? missing_in(made(round)) : std::vector<int64_t>{0};
    } catch (const std::exception&) {
      return {0};
    }
  }

  // As rank 0 has said there.
  std::vector<int64_t> missing_in(const std::string& key) const {
    std::vector<int64_t> ranks;
    std::istringstream words(text_at(*store_, key));
    std::string without;
    words >> without;
    for (int64_t rank = 0; words >> rank;) {
      if (rank != rank_) ranks.push_back(rank);
    }
    if (ranks.empty()) ranks.push_back(0);
    return ranks;
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
