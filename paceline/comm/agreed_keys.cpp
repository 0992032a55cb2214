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

// How long rank 0, and a process that has the keys, waits before it looks around; then twice as long, up to the most.
// and of what is left: who is replaced later than that may be met in the rest.
constexpr std::chrono::milliseconds kFirstLook{500};
constexpr std::chrono::milliseconds kLastLook{60'000};
constexpr int kLooksInWhatIsLeft = 4;
// By which a wait of a store may be too short.
constexpr std::chrono::milliseconds kEarly{20};

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
  for (auto most = kFirstLook;; most = std::min(2 * most, kLastLook)) {
    const auto of_the_rest = std::max<Clock::duration>(kFirstLook, (deadline - Clock::now()) / kLooksInWhatIsLeft);
    const auto until = std::min(deadline, Clock::now() + std::min<Clock::duration>(most, of_the_rest));
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
  /// False at the deadline. `look` is called now and then.
  template <class Look>
  bool wait(int64_t number, Clock::time_point deadline, const Look& look) const {
    return wait_for(*store_, key_of(number), deadline, [&] {
      look();
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
// Rank 0 tells each process "ROUND" in lines of its own, and all that are in it, by the key "made/ROUND", that all are.
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
  static std::string made(const std::string& round) { return "made/" + round; }
  // Whom the rank 0 of the round still waits for.
  static std::string missing(const std::string& round) { return "missing/" + round; }

  [[noreturn]] void fail(const std::vector<int64_t>& ranks) const {
    throw CollectiveError("rank " + std::to_string(rank_) + " of " + std::to_string(world_size_) +
                              " cannot meet the others" + for_want_of(ranks) + ": no word within " +
                              std::to_string(timeout_.count()) + " ms",
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
    const auto tell_missing = [this] { write_missing(); };
    // The lines before that one are of groups that have met.
    int64_t next = store_->check({kBegin}) ? std::stoll(text_at(*store_, kBegin)) : 1;
    for (; std::ssize(having_) < world_size_ - 1 || lines_.is_there(next); ++next) {
      const bool is_late = std::ssize(having_) < world_size_ - 1 && Clock::now() >= deadline;  // a slow store
      if (is_late || !lines_.wait(next, deadline, tell_missing)) {
        write_missing();
        fail(not_having());
      }
      read(lines_.read(next));
    }
    store_->set(made(name_), bytes_of(name_));
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
      names_[rank] = name;
      having_.erase(rank);
      lines_to(name).write(name_);
    } else if (what == "has" && names_[rank] == name) {
      round == name_ ? (void)having_.insert(rank) : (void)having_.erase(rank);
    }
  }

  std::vector<int64_t> not_having() const {
    std::vector<int64_t> ranks;
    for (int64_t rank = 1; rank < world_size_; ++rank) {
      if (!having_.contains(rank)) ranks.push_back(rank);
    }
    return ranks;
  }

  void write_missing() const {
    std::string text;
    for (const int64_t rank : not_having()) text += std::to_string(rank) + " ";
    store_->set(missing(name_), bytes_of(text));
  }

  std::map<int64_t, std::string> names_;  // by which the process that came last for a rank is told
  std::set<int64_t> having_;
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
      if (!told.wait(number, deadline, [] {})) fail({0});
      const std::string round = told.read(number);
      if (round.empty()) continue;
      lines_.write("has " + self + " " + round);
      const auto has_heard_more = [&] { return told.is_there(number + 1); };  // of another process for rank 0
      if (!wait_for(*store_, made(round), deadline, has_heard_more)) fail(missing_in(round));
      if (!has_heard_more()) return round;
    }
  }

 private:
  std::vector<int64_t> missing_in(const std::string& round) const {
    std::vector<int64_t> ranks;
    try {
      if (!store_->check({missing(round)})) return {0};  // killed, or stopped, before it could say
      std::istringstream words(text_at(*store_, missing(round)));
      for (int64_t rank = 0; words >> rank;) {
        if (rank != rank_) ranks.push_back(rank);
      }
    } catch (const std::exception&) {  // it went with rank 0
      return {0};
    }
    if (ranks.empty()) ranks.push_back(0);  // all that it waited for are there
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
