#include <algorithm>
#include <map>
#include <random>
#include <ranges>
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
  void write(const std::string& text) const { write(text, take_number()); }
  /// The same with the number that has been taken for it; a later one where that was left meanwhile.
  void write(const std::string& text, int64_t number) const {
    const Bytes bytes = bytes_of(text);
    std::string key = key_of(number);
    while (store_->compareSet(key, {}, bytes) != bytes) key = key_of(take_number());
    store_->set(key, bytes);  // not every store wakes who waits when compareSet() has made a key
  }

  int64_t take_number() const { return store_->add(last_, 1); }
  /// The last number that was taken; 0: none.
  int64_t last() const { return store_->add(last_, 0); }
  /// Or a later one is, so that this one will be, or is left.
  bool is_there(int64_t number) const { return store_->check({key_of(number)}) || last() > number; }
  /// False at the deadline.
  bool wait(int64_t number, Clock::time_point deadline) const {
    return wait_for(*store_, key_of(number), deadline, [&] {
      return last() > number && !store_->compareSet(key_of(number), {}, bytes_of(kLeft)).empty();
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

  const StorePointer store_;
  const std::string name_;
  const std::string last_ = name_ + "/last";
};

// What all ranks tell rank 0 in lines of one list:
//   "comes RANK NAME NUMBER"  a process is there for a rank; that of several with the greatest number came last
//   "has RANK NAME ROUND"     it has heard of the keys "ROUND" last
//   "goes RANK NAME"          it gives up; rank 0 answers with the key "left/NAME"
// A ROUND is "ORDER_NAME" of a process for rank 0, in the order in which those came. Rank 0 tells each process its
// round in lines of that one's own, or that another has come for its rank. The key "made/ORDER" is written once: that
// all are there, for want of whom rank 0 gives up, or that another process has come for rank 0.
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
  static int64_t order_of(const std::string& round) { return round.empty() ? 0 : std::stoll(round); }
  static std::string made(int64_t order) { return "made/" + std::to_string(order); }
  static std::string left(const std::string& name) { return "left/" + name; }

  [[noreturn]] void fail(const std::vector<int64_t>& ranks) const {
    give_up(for_want_of(ranks) + ": no word within " + std::to_string(timeout_.count()) + " ms");
  }
  [[noreturn]] void give_up_to_another() const { give_up(": another process has come for this rank"); }
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
    int64_t next = take_over();
    // What was left: those that wait still are told afterwards.
    for (const int64_t last = lines_.last(); next <= last && lines_.wait(next, deadline); ++next)
      read(lines_.read(next));
    answers_ = true;
    keep(next);
    for (const auto& [rank, process] : last_) {
      if (Clock::now() < deadline) answer(process.name);
    }
    for (; !all_have() || lines_.is_there(next); ++next) {
      const bool is_late = !all_have() && Clock::now() >= deadline;  // a slow store
      if (is_late || !lines_.wait(next, deadline)) {
        settle(missing(), next);
        fail(missing_ranks());
      }
      read(lines_.read(next));
    }
    settle(kAll, next);
    return round_;
  }

 private:
  static constexpr std::chrono::milliseconds kMostAhead{5'000};
  static constexpr size_t kMostNamed = 64;  // in "left/NAME": with all, the store would hold their square
  // "NEXT ORDER" and "RANK NAME NUMBER" of each process: what the one of that order knows, when it has read the lines
  // before NEXT; all before it have settled.
  static constexpr const char* kKnown = "known";

  // The process that came last for a rank.
  struct Process {
    std::string name;  ///< "" of one that has given up
    int64_t number = 0;
  };

  bool all_have() const { return std::ssize(having_) == world_size_ - 1; }

  // From those that were here before: they have settled, or are told that this one has come. The first line to read.
  int64_t take_over() {
    std::istringstream words(store_->check({kKnown}) ? text_at(*store_, kKnown) : "1 1");
    int64_t next = 0, before = 0, rank = 0;
    words >> next >> before;
    for (; before < order_; ++before) write_once(made(before), kReplaced);
    for (Process process; words >> rank >> process.name >> process.number;) last_[rank] = process;
    return next;
  }

  // Whether it has that text then.
  bool write_once(const std::string& key, const std::string& text) const {
    if (store_->compareSet(key, {}, bytes_of(text)) != bytes_of(text)) return false;
    store_->set(key, bytes_of(text));  // not every store wakes who waits when compareSet() has made a key
    return true;
  }

  // All that have heard of this round hear of that.
  void settle(const std::string& text, int64_t next) {
    if (!write_once(made(order_), text)) give_up_to_another();
    last_.clear();
    keep(next);
  }

  void keep(int64_t next) const {
    std::string text = std::to_string(next) + " " + std::to_string(order_);
    for (const auto& [rank, process] : last_) {
      if (process.name.empty()) continue;
      text += " " + std::to_string(rank) + " " + process.name + " " + std::to_string(process.number);
    }
    store_->set(kKnown, bytes_of(text));
  }

  void answer(const std::string& name) const {
    if (answers_ && !name.empty()) lines_to(name).write(round_);
  }

  void read(const std::string& line) {
    std::istringstream words(line);
    std::string what, name, round;
    int64_t rank = 0;
    words >> what >> rank >> name >> round;
    if (what.empty()) return;  // a hole
    Process& last = last_[rank];
    if (what == "comes") {
      const int64_t number = std::stoll(round);
      if (number < last.number) return lines_to(name).write(kReplaced);  // it was stopped meanwhile
      if (!last.name.empty()) lines_to(last.name).write(kReplaced);
      last = {name, number};
      having_.erase(rank);
      gone_.erase(rank);
      answer(name);
    } else if (what == "has" && order_of(round) > order_) {
      give_up_to_another();
    } else if (what == "has" && last.name == name) {
      round == round_ ? (void)having_.insert(rank) : (void)having_.erase(rank);
    } else if (what == "has" && last.name.empty() && !gone_.contains(rank)) {
      last.name = name;  // it came to one that has not settled, or only just
      answer(name);
    } else if (what == "goes" && last.name == name) {
      last.name.clear();
      having_.erase(rank);
      gone_.insert(rank);
      store_->set(left(name), bytes_of(missing()));
    }
  }

  // Those of whom nobody has come; else those that have not heard of the keys, or have given up for want of others.
  std::vector<int64_t> missing_ranks() const {
    std::vector<int64_t> absent, without_keys;
    for (int64_t rank = 1; rank < world_size_; ++rank) {
      if (having_.contains(rank) || gone_.contains(rank)) continue;
      without_keys.push_back(rank);
      if (const auto last = last_.find(rank); last == last_.end() || last->second.name.empty()) absent.push_back(rank);
    }
    if (!absent.empty()) return absent;
    return without_keys.empty() ? std::vector(gone_.begin(), gone_.end()) : without_keys;
  }

  std::string missing() const {
    std::string text = "without";
    for (const int64_t rank : missing_ranks() | std::views::take(kMostNamed)) text += " " + std::to_string(rank);
    return text;
  }

  const int64_t order_ = store_->add("zeros", 1);
  const std::string round_ = std::to_string(order_) + "_" + name_;
  std::map<int64_t, Process> last_;
  std::set<int64_t> having_, gone_;
  bool answers_ = false;
};

class OtherRank : Talk {
 public:
  using Talk::Talk;

  std::string agree() {
    const std::string self = std::to_string(rank_) + " " + name_;
    const auto deadline = begin_ + timeout_;
    const int64_t came = lines_.take_number();
    if (Clock::now() >= deadline) fail({0});  // it was stopped, and another may have come for its rank meanwhile
    lines_.write("comes " + self + " " + std::to_string(came), came);
    const Lines told = lines_to(name_);
    std::string round;  // of the last process for rank 0 that this one has heard of
    for (int64_t number = 1;; ++number) {
      if (!told.wait(number, deadline)) fail({0});
      const std::string heard = told.read(number);
      if (heard == kReplaced) give_up_to_another();
      if (order_of(heard) > order_of(round)) {
        if (!round.empty() && said(round) == kAll) return round;  // before the other one came
        if (Clock::now() >= deadline) fail({0});
        round = heard;
        lines_.write("has " + self + " " + round);
      }
      if (round.empty()) continue;
      const auto has_heard_more = [&] { return told.is_there(number + 1); };  // of another process for rank 0
      if (!wait_for(*store_, made(order_of(round)), deadline, has_heard_more)) {
        if (const std::vector<int64_t> missing = go(self, round); !missing.empty()) fail(missing);
      }
      if (has_heard_more()) continue;
      const std::string last = said(round);
      if (last == kAll) return round;
      if (last != kReplaced) fail(missing_in(last));
    }
  }

 private:
  // What rank 0 has, or will have, said to all of that round.
  std::string said(const std::string& round) const { return text_at(*store_, made(order_of(round))); }

  // Gives up. Whom rank 0 misses; itself where it does not say, or the store is gone with it; nobody where it has said
  // meanwhile that all are there.
  std::vector<int64_t> go(const std::string& self, const std::string& round) const {
    try {
      lines_.write("goes " + self);
      const auto deadline = Clock::now() + std::min(kAnswer, timeout_);
      if (!wait_for(*store_, left(name_), deadline, [&] { return store_->check({made(order_of(round))}); })) return {0};
      const bool has_met = store_->check({made(order_of(round))}) && said(round) == kAll;
      if (store_->check({left(name_)})) return missing_in(text_at(*store_, left(name_)));  // the line was read first
      return has_met ? std::vector<int64_t>{} : missing_in(said(round));
    } catch (const std::exception&) {
      return {0};
    }
  }

  std::vector<int64_t> missing_in(const std::string& text) const {
    std::vector<int64_t> ranks;
    std::istringstream words(text);
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
