#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <ranges>
#include <set>
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>
#include <vector>

#include "paceline/comm/agreed_keys_internal.h"
#include "paceline/comm/checks_internal.h"
#include "paceline/core/error.h"
#include "paceline/core/peer_lost.h"

namespace paceline::comm {
namespace {

using StorePointer = c10::intrusive_ptr<c10d::Store>;
using Bytes = std::vector<uint8_t>;

// How long a wait goes on before it looks around, at least: a part of the time that it has. Then twice as long, up to
// the most, and not for so large a part of what is left that who is replaced late could not be met. Each look at a
// TCPStore is two lines in the log.
constexpr std::chrono::milliseconds kMostOfTheFirst{5'000}, kMostOfAll{60'000};
constexpr int kFirstPart = 50, kPartOfWhatIsLeft = 4;
// By which a wait of a store may be too short.
constexpr std::chrono::milliseconds kEarly{20};

// How long who gives up waits for what rank 0 says to that, at most: others give up at the same time.
constexpr std::chrono::milliseconds kAnswer{1'000}, kAnswerForEachRank{1};

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
bool wait_for(c10d::Store& store, const Clock& clock, const std::string& key, Duration deadline, const Look& look) {
  const Duration first = std::min<Duration>(kMostOfTheFirst, (deadline - clock.monotonic()) / kFirstPart);
  for (Duration most = first;; most = std::min<Duration>(2 * most, kMostOfAll)) {
    const Duration of_what_is_left = std::max(first, (deadline - clock.monotonic()) / kPartOfWhatIsLeft);
    const Duration until = std::min(deadline, clock.monotonic() + std::min(most, of_what_is_left));
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock.monotonic());
    try {
      store.wait({key}, std::max(left, std::chrono::milliseconds(1)));
      return true;
    } catch (const std::exception&) {
      if (store.check({key})) return true;
      if (clock.monotonic() + kEarly < until) throw;
    }
    if (look()) return true;
    if (clock.monotonic() >= deadline) return false;
  }
}

// Lines that many processes write, each with a number, and one reads in their order. Whoever is killed between its
// number and its line leaves a hole: who reads marks it as left once another has a later number. Who was only slow then
// takes a new one.
class Lines {
 public:
  Lines(StorePointer store, const Clock& clock, std::string name)
      : store_(std::move(store)), clock_(clock), name_(std::move(name)) {}

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
  /// Of the number that has been taken nothing will be written.
  void leave(int64_t number) const { store_->set(key_of(number), bytes_of(kLeft)); }
  /// The last number that was taken; 0: none.
  int64_t last() const { return store_->add(last_, 0); }
  /// Or a later one is, so that this one will be, or is left.
  bool is_there(int64_t number) const { return store_->check({key_of(number)}) || last() > number; }
  /// False at the deadline. `look` is called now and then meanwhile.
  bool wait(int64_t number, Duration deadline, const std::function<void()>& look = [] {}) const {
    return wait_for(*store_, clock_, key_of(number), deadline, [&] {
      look();
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
  const Clock& clock_;
  const std::string name_;
  const std::string last_ = name_ + "/last";
};

// What all ranks tell rank 0 in lines of one list:
//   "comes RANK NAME NUMBER"      a process is there for a rank; that of several with the greatest number came last
//   "has RANK NAME NUMBER ROUND"  it has heard of the keys "ROUND" last
//   "goes RANK NAME NUMBER"       it gives up; rank 0 answers with the key "left/NAME/ORDER"
// A ROUND is "ORDER_NAME" of a process for rank 0, in the order in which those came. Rank 0 tells each process its
// round in lines of that one's own, or that another has come for its rank. The key "made/ORDER" is written once: that
// all are there, for want of whom rank 0 gives up, or that another process has come for rank 0.
class Talk {
 public:
  Talk(const StorePointer& given, int64_t rank, int64_t world_size, std::chrono::milliseconds timeout,
       const Clock& clock)
      : store_(c10::make_intrusive<c10d::PrefixStore>("paceline_made/" + std::to_string(world_size), given)),
        rank_(rank),
        world_size_(world_size),
        timeout_(std::min<std::chrono::milliseconds>(timeout, std::chrono::years(10))),
        clock_(clock),
        lines_(store_, clock, "line") {}

 protected:
  Lines lines_to(const std::string& name) const { return {store_, clock_, "to/" + name}; }
  static constexpr const char* kReplaced = "replaced";
  static constexpr const char* kAll = "all";
  /// 0 of what is no round.
  static int64_t order_of(const std::string& round) {
    std::istringstream words(round);
    int64_t order = 0;
    return words >> order ? order : 0;
  }
  static std::string made(int64_t order) { return "made/" + std::to_string(order); }
  static std::string left(const std::string& name, int64_t order) {
    return "left/" + name + "/" + std::to_string(order);
  }

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
  const Clock& clock_;
  const Duration begin_ = clock_.monotonic();
  const Lines lines_;
  const std::string name_ = random_name();  // of this process
};

class RankZero : Talk {
 public:
  using Talk::Talk;

  // Reads on until those that have come last for each rank all have the keys, and nobody has come since.
  std::string agree() {
    // A little before the others, which name those for want of whom it gives up.
    const Duration deadline = begin_ + timeout_ - std::min<std::chrono::milliseconds>(timeout_ / 10, kMostAhead);
    const auto is_late = [&] { return clock_.monotonic() >= deadline; };
    int64_t next = take_over();
    // What was left: those that wait still are told afterwards. But the last line: behind a hole others come only then.
    for (const int64_t last = lines_.last(); next < last && !is_late() && wait_for_line(next, deadline); ++next)
      read(lines_.read(next));
    answers_ = true;
    keep(next);
    for (auto& [rank, process] : last_) {
      if (!is_late()) answer(process);
    }
    for (; !all_have() || lines_.is_there(next); ++next) {
      if ((!all_have() && is_late()) || !wait_for_line(next, deadline)) {  // late already: a slow store
        const std::set<int64_t>& missing = missing_ranks();
        settle(text_of(missing), next);
        fail({missing.begin(), missing.end()});
      }
      read(lines_.read(next));
    }
    settle(kAll, next);
    return round_;
  }

 private:
  static constexpr std::chrono::milliseconds kMostAhead{5'000};
  static constexpr size_t kMostNamed = 64;  // in "left/NAME/ORDER": with all, the store would hold their square
  // "NEXT ORDER" and "RANK NAME NUMBER" of the last process of each rank: what the one of that order knows, when it has
  // read the lines before NEXT; all before it have settled.
  static constexpr const char* kKnown = "known";
  static constexpr const char* kNobody = "-";  // the NAME of one that does not wait any more

  // The process that came last for a rank.
  struct Process {
    std::string name;      ///< "" of one that has given up, or heard how a round ended
    int64_t number = 0;    ///< those with smaller ones have been replaced, also where it does not wait any more
    bool is_told = false;  ///< this round, and so hears how it ends
  };

  // What the last process of a rank has said.
  enum State { absent, without_keys, having, gone };

  struct Line {
    std::string what;
    int64_t rank = 0;
    std::string name;
    int64_t number = 0;
    std::string round;
  };

  // Nothing for a hole, and for what no rank has written.
  std::optional<Line> parsed(const std::string& text) const {
    std::istringstream words(text);
    Line line;
    if (!(words >> line.what >> line.rank >> line.name >> line.number)) return {};
    if (line.what != "comes" && line.what != "has" && line.what != "goes") return {};
    if (line.rank < 1 || line.rank >= world_size_) return {};
    words >> line.round;
    return line;
  }

  void put(int64_t rank, State state) {
    for (std::set<int64_t>& ranks : ranks_) ranks.erase(rank);
    ranks_[state].insert(rank);
  }
  bool all_have() const { return std::ssize(ranks_[having]) == world_size_ - 1; }

  // From those that were here before: they have settled, or are told that this one has come. The first line to read.
  int64_t take_over() {
    for (int64_t rank = 1; rank < world_size_; ++rank) put(rank, absent);
    std::istringstream words(store_->check({kKnown}) ? text_at(*store_, kKnown) : "1 1");
    int64_t next = 0, before = 0, rank = 0;
    words >> next >> before;
    for (; before < order_; ++before) write_once(made(before), kReplaced);
    for (Process process; words >> rank >> process.name >> process.number;) {
      if (process.name == kNobody) process.name.clear();
      if (!process.name.empty()) put(rank, without_keys);
      last_[rank] = process;
    }
    return next;
  }

  // Also looks whether a later rank 0 has come, of which it hears from nobody while no lines come.
  bool wait_for_line(int64_t number, Duration deadline) const {
    return lines_.wait(number, deadline, [&] {
      if (store_->check({made(order_)})) give_up_to_another();
    });
  }

  // Whether it has that text then.
  bool write_once(const std::string& key, const std::string& text) const {
    if (store_->compareSet(key, {}, bytes_of(text)) != bytes_of(text)) return false;
    store_->set(key, bytes_of(text));  // not every store wakes who waits when compareSet() has made a key
    return true;
  }

  // All that have been told of this round hear of that; the others wait for the next one.
  void settle(const std::string& text, int64_t next) {
    if (!write_once(made(order_), text)) give_up_to_another();
    for (auto& [rank, process] : last_) {
      if (process.is_told) process.name.clear();
    }
    keep(next);
  }

  void keep(int64_t next) const {
    std::ostringstream text;
    text << next << " " << order_;
    for (const auto& [rank, process] : last_) {
      text << " " << rank << " " << (process.name.empty() ? kNobody : process.name) << " " << process.number;
    }
    store_->set(kKnown, bytes_of(text.str()));
  }

  void answer(Process& process) const {
    if (!answers_ || process.name.empty()) return;
    lines_to(process.name).write(round_);
    process.is_told = true;
  }

  void read(const std::string& text) {
    const std::optional<Line> line = parsed(text);
    if (!line) return;
    if (line->what == "has" && order_of(line->round) > order_) give_up_to_another();
    Process& last = last_[line->rank];
    if (line->what == "goes") {
      if (last.name != line->name) return;
      last.name.clear();
      put(line->rank, gone);
      if (last.is_told) store_->set(left(line->name, order_), bytes_of(text_of(missing_ranks())));
    } else if (line->number < last.number) {  // it was stopped meanwhile
      lines_to(line->name).write(kReplaced);
    } else if (line->number > last.number || last.name.empty()) {  // "has": it came to one that had only just settled
      if (!last.name.empty()) lines_to(last.name).write(kReplaced);
      last = {line->name, line->number};
      put(line->rank, without_keys);
      answer(last);
    } else {
      put(line->rank, line->round == round_ ? having : without_keys);
    }
  }

  // Those of whom nobody has come; else those that have not heard of the keys, or have given up for want of others.
  const std::set<int64_t>& missing_ranks() const {
    for (const State state : {absent, without_keys}) {
      if (!ranks_[state].empty()) return ranks_[state];
    }
    return ranks_[gone];
  }

  static std::string text_of(const std::set<int64_t>& missing) {
    std::string text = "without";
    for (const int64_t rank : missing | std::views::take(kMostNamed)) text += " " + std::to_string(rank);
    return text;
  }

  const int64_t order_ = store_->add("zeros", 1);
  const std::string round_ = std::to_string(order_) + "_" + name_;
  std::map<int64_t, Process> last_;
  std::array<std::set<int64_t>, 4> ranks_;  // by State
  bool answers_ = false;
};

class OtherRank : Talk {
 public:
  using Talk::Talk;

  std::string agree() {
    const Duration deadline = begin_ + timeout_;
    const int64_t came = lines_.take_number();
    if (clock_.monotonic() >= deadline) {  // it was stopped, and another may have come for its rank meanwhile
      lines_.leave(came);
      fail({0});
    }
    const std::string self = std::to_string(rank_) + " " + name_ + " " + std::to_string(came);
    lines_.write("comes " + self, came);
    const Lines told = lines_to(name_);
    std::string round;  // of the last process for rank 0 that this one has heard of
    for (int64_t number = 1;; ++number) {
      if (!told.wait(number, deadline)) fail({0});
      const std::string heard = told.read(number);
      if (heard == kReplaced) give_up_to_another();
      if (order_of(heard) > order_of(round)) {
        if (!round.empty() && said(round) == kAll) return round;  // before the other one came
        if (clock_.monotonic() >= deadline) fail({0});
        round = heard;
        lines_.write("has " + self + " " + round);
      }
      if (round.empty()) continue;
      const auto has_heard_more = [&] { return told.is_there(number + 1); };  // of another process for rank 0
      if (!wait_for(*store_, clock_, made(order_of(round)), deadline, has_heard_more)) {
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
    const int64_t order = order_of(round);
    const std::string answer = left(name_, order);
    try {
      lines_.write("goes " + self);
      const Duration deadline =
          clock_.monotonic() + std::min<Duration>(kAnswer + world_size_ * kAnswerForEachRank, timeout_);
      if (!wait_for(*store_, clock_, answer, deadline, [&] { return store_->check({made(order)}); })) return {0};
      const bool has_met = store_->check({made(order)}) && said(round) == kAll;
      if (store_->check({answer})) return missing_in(text_at(*store_, answer));  // the line was read first
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
                           std::chrono::milliseconds timeout, const Clock& clock) {
  check_place(rank, world_size);
  std::string name;
  if (world_size == 1) {
    name = random_name();
  } else if (rank == 0) {
    name = RankZero(given, rank, world_size, timeout, clock).agree();
  } else {
    name = OtherRank(given, rank, world_size, timeout, clock).agree();
  }
  return c10::make_intrusive<c10d::PrefixStore>("paceline_made_" + name, given);
}

}  // namespace paceline::comm
