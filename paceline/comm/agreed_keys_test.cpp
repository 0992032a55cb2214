#include <gmock/gmock.h>

#include <functional>
#include <future>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "paceline/comm/agreed_keys_internal.h"
#include "paceline/comm/control_store.h"
#include "paceline/core/clock.h"
#include "paceline/core/error.h"
#include "paceline/rpc/memory_key_value.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::comm {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Bytes = std::vector<uint8_t>;
using StorePointer = c10::intrusive_ptr<c10d::Store>;

constexpr auto kEnough = 50s;

// What c10d shows to nobody.
struct Prefix : c10d::PrefixStore {
  static std::string of(const PrefixStore& store) { return store.*(&Prefix::prefix_); }
};

// The prefix, or why there is none.
std::string prefix_of(const StorePointer& store, int64_t rank, int64_t world_size,
                      std::chrono::milliseconds timeout = kEnough, const Clock& clock = SystemClock()) {
  try {
    return Prefix::of(dynamic_cast<const c10d::PrefixStore&>(*agree_on_keys(store, rank, world_size, timeout, clock)));
  } catch (const CollectiveError& error) {
    return error.what();
  }
}

std::future<std::string> begin(const StorePointer& store, int64_t rank, int64_t world_size,
                               std::chrono::milliseconds timeout = kEnough) {
  return std::async(std::launch::async, [=] { return prefix_of(store, rank, world_size, timeout); });
}

std::string made(const StorePointer& store, int64_t world_size) {
  std::vector<std::future<std::string>> ranks;
  for (int64_t rank = 0; rank < world_size; ++rank) ranks.push_back(begin(store, rank, world_size, 30s));
  const std::string first = ranks.front().get();
  EXPECT_THAT(first, ::testing::StartsWith("paceline_made_"));
  for (size_t rank = 1; rank < ranks.size(); ++rank) EXPECT_EQ(ranks[rank].get(), first);
  return first;
}

TEST(AgreedKeys, AreOtherOnesEachTime) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::set<std::string> all;
  for (const int64_t world_size : {3, 3, 1, 2, 3, 2, 1, 3}) {
    EXPECT_TRUE(all.insert(made(store, world_size)).second) << world_size;
  }
}

// Whose process is killed behind `calls` of those that change something.
class DyingStore final : public c10d::Store {
 public:
  struct Killed : std::exception {};
  DyingStore(StorePointer store, int calls) : store_(std::move(store)), left_(calls) {}
  c10::intrusive_ptr<Store> clone() override { return store_; }
  void set(const std::string& key, const Bytes& value) override { live().set(key, value); }
  int64_t add(const std::string& key, int64_t value) override { return live().add(key, value); }
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override {
    return live().compareSet(key, expected, desired);
  }
  Bytes get(const std::string& key) override { return store_->get(key); }
  bool deleteKey(const std::string& key) override { return store_->deleteKey(key); }
  bool check(const std::vector<std::string>& keys) override { return store_->check(keys); }
  int64_t getNumKeys() override { return store_->getNumKeys(); }
  void wait(const std::vector<std::string>& keys) override { store_->wait(keys); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    store_->wait(keys, timeout);
  }
  int left() const { return left_; }

 private:
  Store& live() {
    if (left_-- == 0) throw Killed();
    return *store_;
  }

  const StorePointer store_;
  int left_;
};

// Whether the rank is killed behind so many calls, before it has the keys or gives up.
bool is_killed(const StorePointer& store, int calls, int64_t rank, int64_t world_size) {
  try {
    (void)agree_on_keys(c10::make_intrusive<DyingStore>(store, calls), rank, world_size, 200ms);
    return false;
  } catch (const DyingStore::Killed&) {
    return true;
  } catch (const CollectiveError&) {
    return false;
  }
}

// Whichever rank is killed wherever, all get there afterwards that come then.
TEST(AgreedKeys, WhoeverIsKilledWhileTheyAgreeDoesNotKeepTheNextFromIt) {
  constexpr int64_t kRanks = 2;
  for (int64_t killed = 0; killed < kRanks; ++killed) {
    bool was_killed = true;
    for (int calls = 0; was_killed; ++calls) {
      SCOPED_TRACE("rank " + std::to_string(killed) + " behind " + std::to_string(calls) + " calls");
      const auto store = c10::make_intrusive<c10d::HashStore>();
      auto other = begin(store, 1 - killed, kRanks, 200ms);
      was_killed = is_killed(store, calls, killed, kRanks);
      other.get();
      made(store, kRanks);
      made(store, kRanks);
    }
  }
}

// compareSet() wakes nobody there.
class ServerThatWakesFew {
 public:
  StorePointer client() const {
    return c10::make_intrusive<c10d::TCPStore>(
        "127.0.0.1", c10d::TCPStoreOptions{.port = server_.getPort(), .waitWorkers = false, .useLibUV = false});
  }

 private:
  const c10d::TCPStore server_{
      "127.0.0.1", c10d::TCPStoreOptions{.port = 0, .isServer = true, .waitWorkers = false, .useLibUV = false}};
};

// Up to the call with which it is told that all have them: what it has then is nobody's.
TEST(AgreedKeys, WhoeverIsKilledCanBeReplacedWhileTheOthersWait) {
  constexpr int64_t kRanks = 3;
  for (int64_t killed = 0; killed < kRanks - 1; ++killed) {
    for (int calls = 0; calls < 12; ++calls) {
      constexpr auto kPatience = 30s;  // a hole is looked for first after a fiftieth of it
      SCOPED_TRACE("rank " + std::to_string(killed) + " behind " + std::to_string(calls) + " calls");
      const ServerThatWakesFew server;
      std::vector<std::future<std::string>> others;
      for (int64_t rank = 0; rank < kRanks - 1; ++rank) {
        if (rank != killed) others.push_back(begin(server.client(), rank, kRanks, kPatience));
      }
      if (!is_killed(server.client(), calls, killed, kRanks)) break;  // it gave up for want of the last
      if (server.client()->check({"paceline_made/3/made/1"})) break;  // and is heard
      // Whoever has said that it has the keys counts as there until another comes for its rank.
      const auto lines = [store = server.client()] { return store->add("paceline_made/3/line/last", 0); };
      const int64_t before = lines();
      others.push_back(begin(server.client(), killed, kRanks, kPatience));
      while (lines() == before) std::this_thread::yield();
      others.push_back(begin(server.client(), kRanks - 1, kRanks, kPatience));
      const std::string first = others.front().get();
      EXPECT_THAT(first, ::testing::StartsWith("paceline_made_"));
      for (size_t i = 1; i < others.size(); ++i) EXPECT_EQ(others[i].get(), first);
    }
  }
}

TEST(AgreedKeys, OfTwoForRankZeroOneMeetsTheOthersOrNone) {
  for (int round = 0; round < 20; ++round) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    std::vector<std::future<std::string>> ranks;
    for (const int64_t rank : {0, 0, 1, 2}) ranks.push_back(begin(store, rank, 3, 100ms));
    std::vector<std::string> got;
    for (auto& rank : ranks) got.push_back(rank.get());
    const bool have_met = got[2].starts_with("paceline_made_") && got[3].starts_with("paceline_made_");
    EXPECT_TRUE(!have_met || got[2] == got[3]) << got[2] << ", " << got[3];
  }
}

TEST(AgreedKeys, WhoComesAgainIsTakenForTheOneThatCameBefore) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_THAT(prefix_of(store, 1, 2, 1ms), HasSubstr("rank 1 of 2 cannot meet the others for want of rank 0"));
  EXPECT_THAT(prefix_of(store, 2, 3, 1ms), HasSubstr("rank 2 of 3 cannot meet the others for want of rank 0"));
  made(store, 2);
  made(store, 3);
}

// Each kind of store has its own error for a wait that was too long.
std::vector<StorePointer> stores_of_each_kind(const testing::TemporaryFolder& folder) {
  static rpc::MemoryKeyValueStore values;
  return {c10::make_intrusive<c10d::HashStore>(), c10::make_intrusive<c10d::FileStore>(folder / "store", 4),
          make_control_store(values.client({.epoch = {1}, .attempt = {1}, .generation = {0}, .worker = {1}}), kEnough)};
}

TEST(AgreedKeys, WhoDoesNotComeIsNamedByAll) {
  const testing::TemporaryFolder folder;
  for (const StorePointer& store : stores_of_each_kind(folder)) {
    std::vector<std::future<std::string>> ranks;
    for (const int64_t rank : {0, 1, 2}) ranks.push_back(begin(store, rank, 4, 1500ms));
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      EXPECT_EQ(ranks[rank].get(), "rank " + std::to_string(rank) +
                                       " of 4 cannot meet the others for want of rank 3: no word within 1500 ms");
    }
    made(store, 4);
  }
}

// Processes of ranks, played by a test.
class Played {
 public:
  Played(const StorePointer& store, int64_t world_size)
      : store_(c10::make_intrusive<c10d::PrefixStore>("paceline_made/" + std::to_string(world_size), store)) {}

  int64_t add(const std::string& key, int64_t value) const { return store_->add(key, value); }
  int64_t take_number(const std::string& list = "line") const { return add(list + "/last", 1); }
  void write(int64_t number, const std::string& text, const std::string& list = "line") const {
    set(list + "/" + std::to_string(number), text);
  }
  void write(const std::string& text) const { write(take_number(), text); }
  void set(const std::string& key, const std::string& text) const { store_->set(key, Bytes(text.begin(), text.end())); }
  // Waits for it.
  std::string text(const std::string& key) const {
    store_->wait({key}, kEnough);
    const Bytes bytes = store_->get(key);
    return {bytes.begin(), bytes.end()};
  }
  std::string word(const std::string& key, int index = 0) const {
    std::istringstream words(text(key));
    std::string word;
    for (int i = 0; i <= index; ++i) words >> word;
    return word;
  }

 private:
  const StorePointer store_;
};

TEST(AgreedKeys, WhoIsReplacedBehindAHoleIsWaitedFor) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const Played ranks(store, 2);
  ranks.write("comes 1 first 1");
  auto zero = begin(store, 0, 2, 30s);  // so that it looks soon
  const std::string round = ranks.word("to/first/1");
  const int64_t has = ranks.take_number();
  (void)ranks.take_number();  // of a process that is killed then
  ranks.write("comes 1 second 4");
  ranks.write(has, "has 1 first 1 " + round);
  EXPECT_EQ(ranks.word("to/second/1"), round);
  ranks.write("has 1 second 4 " + round);
  EXPECT_THAT(zero.get(), HasSubstr(round));
}

TEST(AgreedKeys, WhoWaitsIsMetBehindAHoleAtTheEnd) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const Played killed(store, 2);
  auto one = begin(store, 1, 2);
  (void)killed.word("line/1");
  (void)killed.take_number();
  const std::string met = prefix_of(store, 0, 2, 3s);
  EXPECT_THAT(met, ::testing::StartsWith("paceline_made_"));
  EXPECT_EQ(one.get(), met);
}

TEST(AgreedKeys, WhoIsLateAlreadyLeavesNoHole) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_THAT(prefix_of(store, 1, 2, 0ms), HasSubstr("for want of rank 0:"));
  EXPECT_EQ(Played(store, 2).word("line/1"), "-");
}

// It had no time for that, nor had the one before it, which had read the line.
TEST(AgreedKeys, WhomOneForRankZeroHasNotToldOfItsKeysTheNextTells) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const Played ranks(store, 2);
  ranks.write("comes 1 one 1");
  ranks.set("known", "2 1 1 one 1");
  EXPECT_EQ(ranks.add("zeros", 1), 1);
  EXPECT_THAT(prefix_of(store, 0, 2, 0ms), HasSubstr("for want of rank 1:"));
  auto zero = begin(store, 0, 2, 10s);
  const std::string round = ranks.word("to/one/1");
  ranks.write("has 1 one 1 " + round);
  EXPECT_EQ(zero.get(), "paceline_made_" + round);
}

TEST(AgreedKeys, RankZeroNamesThoseThatItNamesToTheOthers) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const Played ranks(store, 4);
  ranks.write("comes 1 one 1");
  ranks.write("comes 2 two 2");
  EXPECT_THAT(prefix_of(store, 0, 4, 300ms), HasSubstr("for want of rank 3:"));
  EXPECT_EQ(ranks.text("made/1"), "without 3");
}

TEST(AgreedKeys, EachThatGoesIsToldOfThoseOfWhomLeastIsHeard) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const Played ranks(store, 4);
  auto zero = begin(store, 0, 4, 10s);
  const auto come = [&](const std::string& rank) {
    const std::string self = rank + " name" + rank + " " + std::to_string(ranks.take_number());
    ranks.write("comes " + self);
    return self;
  };
  const auto have = [&](const std::string& self) {
    ranks.write("has " + self + " " + ranks.word("to/name" + self.substr(0, 1) + "/1"));
  };
  const auto missing_for = [&](const std::string& self) {
    ranks.write("goes " + self);
    return ranks.text("left/name" + self.substr(0, 1) + "/1");
  };
  const std::string one = come("1");
  have(one);
  EXPECT_EQ(missing_for(one), "without 2 3");  // which have not come
  const std::string two = come("2"), three = come("3");
  have(two);
  EXPECT_EQ(missing_for(two), "without 3");  // which has not heard of the keys
  have(three);
  EXPECT_EQ(missing_for(three), "without 1 2 3");  // which have given up
  ranks.set("made/1", "replaced");
  EXPECT_THAT(zero.get(), HasSubstr("another process has come for this rank"));
}

TEST(AgreedKeys, ThereIsNoSuchPlace) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  for (const auto& [rank, world_size] : std::vector<std::pair<int64_t, int64_t>>{{4, 4}, {-1, 4}, {1, 1}, {0, 0}}) {
    EXPECT_EQ(prefix_of(store, rank, world_size, 1ms),
              "there is no such place in a group: rank=" + std::to_string(rank) +
                  " world_size=" + std::to_string(world_size));
  }
}

TEST(AgreedKeys, WhoIsOfNoRankIsNotCounted) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const Played ranks(store, 3);
  ranks.write("comes 1 one 1");
  ranks.write("comes 7 seven 2");
  auto zero = begin(store, 0, 3, 500ms);
  const std::string round = ranks.word("to/one/1");
  ranks.write("has 1 one 1 " + round);
  ranks.write("has 7 seven 2 " + round);
  EXPECT_THAT(zero.get(), HasSubstr("for want of rank 2:"));
}

TEST(AgreedKeys, WhatNoRankHasSaidIsNotHeard) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const Played ranks(store, 2);
  for (const char* const line :
       {"", "comes", "comes 1 x", "comes one x 3", "comes 2 x 4", "comes -1 x 5", "sees 1 x 6", "has 1 x 7 round"}) {
    ranks.write(line);
  }
  auto zero = begin(store, 0, 2), one = begin(store, 1, 2);
  EXPECT_THAT(one.get(), ::testing::StartsWith("paceline_made_"));
  EXPECT_THAT(zero.get(), ::testing::StartsWith("paceline_made_"));
}

TEST(AgreedKeys, WhatRankZeroHasNotSaidIsNotHeard) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const Played zero(store, 2);
  auto one = begin(store, 1, 2, 30s);
  const std::string list = "to/" + zero.word("line/1", 2);
  for (const char* const line : {"round", "1_zero"}) zero.write(zero.take_number(list), line, list);
  zero.set("made/1", "all");
  EXPECT_EQ(one.get(), "paceline_made_1_zero");
}

TEST(AgreedKeys, ARankZeroThatDiesIsNamed) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const Played zero(store, 4);
  auto one = begin(store, 1, 4, 300ms), two = begin(store, 2, 4, 300ms);
  for (const char* const line : {"line/1", "line/2"}) {
    const std::string list = "to/" + zero.word(line, 2);
    zero.write(zero.take_number(list), "1_zero", list);
  }
  EXPECT_THAT(one.get(), HasSubstr("for want of rank 0:"));
  EXPECT_THAT(two.get(), HasSubstr("for want of rank 0:"));
}

// The played rank 0 has found all there before it reads that this one goes.
TEST(AgreedKeys, WhoIsLateToGiveUpMeetsTheOthers) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const Played zero(store, 2);
  auto one = begin(store, 1, 2, 300ms);
  const std::string list = "to/" + zero.word("line/1", 2);
  zero.write(zero.take_number(list), "1_zero", list);
  EXPECT_EQ(zero.word("line/3"), "goes");
  zero.set("made/1", "all");
  EXPECT_EQ(one.get(), "paceline_made_1_zero");
}

// It has read that this one goes, but was not the one that all waited for.
TEST(AgreedKeys, WhatAnotherRankZeroSaysToWhoGivesUpIsNotHeard) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const Played zero(store, 2);
  auto one = begin(store, 1, 2, 300ms);
  const std::string name = zero.word("line/1", 2);
  zero.write(zero.take_number("to/" + name), "1_zero", "to/" + name);
  EXPECT_EQ(zero.word("line/3"), "goes");
  for (const char* const of_another : {"", "/2"}) zero.set("left/" + name + of_another, "without");
  zero.set("made/1", "all");
  EXPECT_EQ(one.get(), "paceline_made_1_zero");
}

TEST(AgreedKeys, WhatIsSaidToAllIsHeardBehindHoles) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const Played zero(store, 2);
  auto one = begin(store, 1, 2, 30s);  // so that it looks soon
  const std::string list = "to/" + zero.word("line/1", 2);
  zero.write(zero.take_number(list), "3_zero", list);
  EXPECT_EQ(zero.word("line/2"), "has");
  for (int dead = 0; dead < 2; ++dead) (void)zero.take_number(list);
  EXPECT_EQ(zero.word(list + "/2"), "-");  // it has looked, and waits behind them
  zero.set("made/3", "all");
  EXPECT_EQ(one.get(), "paceline_made_3_zero");
}

// It came first, and was stopped before it could say so.
TEST(AgreedKeys, WhoWasStoppedDoesNotReplaceItsSuccessor) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const Played stopped(store, 3);
  const int64_t number = stopped.take_number();
  auto zero = begin(store, 0, 3, 30s), second = begin(store, 1, 3, 30s);  // so that they look soon
  EXPECT_EQ(stopped.word("line/3"), "has");
  stopped.write(stopped.take_number(), "comes 1 stopped " + std::to_string(number));
  EXPECT_EQ(stopped.word("to/stopped/1"), "replaced");
  auto two = begin(store, 2, 3);
  const std::string met = zero.get();
  EXPECT_THAT(met, ::testing::StartsWith("paceline_made_"));
  EXPECT_EQ(second.get(), met);
  EXPECT_EQ(two.get(), met);
}

// Nor when that one has met the others, and waits for nobody any more.
TEST(AgreedKeys, WhoWasStoppedIsReplacedInTheNextGroupsAsWell) {
  for (const std::string line : {"comes 1 stopped 1", "has 1 stopped 1 1_zero"}) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    const Played stopped(store, 2);
    EXPECT_EQ(stopped.take_number(), 1);
    made(store, 2);
    stopped.write(line);
    auto zero = begin(store, 0, 2);
    EXPECT_EQ(stopped.word("to/stopped/1"), "replaced") << line;
    auto one = begin(store, 1, 2);
    const std::string met = zero.get();
    EXPECT_THAT(met, ::testing::StartsWith("paceline_made_")) << line;
    EXPECT_EQ(one.get(), met) << line;
  }
}

// It is known by what it has only, as the one that read that it comes has settled.
TEST(AgreedKeys, WhoWasStoppedDoesNotReplaceASuccessorThatHasTheKeysOfAnEarlierRound) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const Played ranks(store, 3);
  EXPECT_EQ(ranks.take_number(), 1);
  ranks.write("comes 1 second 2");
  EXPECT_THAT(prefix_of(store, 0, 3, 300ms), HasSubstr("for want of rank 2:"));
  ranks.write("has 1 second 2 " + ranks.word("to/second/1"));
  auto zero = begin(store, 0, 3), two = begin(store, 2, 3);
  const std::string round = ranks.word("to/second/2");
  ranks.write("comes 1 stopped 1");
  EXPECT_EQ(ranks.word("to/stopped/1"), "replaced");
  ranks.write("has 1 second 2 " + round);
  EXPECT_EQ(zero.get(), "paceline_made_" + round);
  EXPECT_EQ(two.get(), "paceline_made_" + round);
}

// Also where the earlier one would say only now that all are there.
TEST(AgreedKeys, TheLaterOfTwoForRankZeroMeetsTheOthers) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const Played earlier(store, 2);
  EXPECT_EQ(earlier.add("zeros", 1), 1);
  auto one = begin(store, 1, 2, 30s);
  const std::string list = "to/" + earlier.word("line/1", 2);
  earlier.write(earlier.take_number(list), "1_earlier", list);
  EXPECT_EQ(earlier.word("line/2"), "has");
  auto later = begin(store, 0, 2, 30s);
  EXPECT_EQ(earlier.word("made/1"), "replaced");
  const std::string met = later.get();
  EXPECT_THAT(met, ::testing::StartsWith("paceline_made_2_"));
  EXPECT_EQ(one.get(), met);
}

TEST(AgreedKeys, WhoGivesUpSaysForWantOfWhomAndIsNotCountedOn) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  auto zero = begin(store, 0, 3);
  EXPECT_THAT(prefix_of(store, 1, 3, 300ms), HasSubstr("for want of rank 2:"));
  auto two = begin(store, 2, 3);
  (void)Played(store, 3).word("line/5");  // it has the keys: 1 and 2 are of rank 1, 3 says that it goes
  auto again = begin(store, 1, 3);
  const std::string met = zero.get();
  EXPECT_THAT(met, ::testing::StartsWith("paceline_made_"));
  EXPECT_EQ(again.get(), met);
  EXPECT_EQ(two.get(), met);
}

TEST(AgreedKeys, OfTwoForARankTheOneThatCameFirstGivesUp) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  auto zero = begin(store, 0, 3), first = begin(store, 1, 3, 30s);  // so that it looks soon
  (void)Played(store, 3).word("line/2");                            // it has the keys
  auto second = begin(store, 1, 3);
  EXPECT_THAT(first.get(), HasSubstr("rank 1 of 3 cannot meet the others: another process has come for this rank"));
  auto two = begin(store, 2, 3);
  const std::string met = zero.get();
  EXPECT_EQ(second.get(), met);
  EXPECT_EQ(two.get(), met);
}

// It is a slow one.
class SlowStore final : public c10d::HashStore {
 public:
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override {
    ++calls;
    std::this_thread::sleep_for(10ms);
    return HashStore::compareSet(key, expected, desired);
  }
  int calls = 0;
};

TEST(AgreedKeys, RankZeroGivesUpInTimeWhereTheStoreIsTooSlow) {
  constexpr int64_t kRanks = 1'000;
  const auto store = c10::make_intrusive<SlowStore>();
  const Played ranks(store, kRanks);
  for (int64_t rank = 1; rank < kRanks; ++rank) {
    const std::string text = std::to_string(rank);
    ranks.write("comes " + text + " name" + text + " " + text);
  }
  EXPECT_THAT(prefix_of(store, 0, kRanks, 200ms), HasSubstr("cannot meet the others"));
  EXPECT_LT(store->calls, kRanks / 2) << "of 10 ms each";
}

// In which time passes only while somebody waits, and a little with each value that is read.
class StoreInManualTime final : public c10d::HashStore {
 public:
  Bytes get(const std::string& key) override {
    ++reads;
    clock.advance(1ms);
    return HashStore::get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    if (check(keys)) return;
    clock.advance(timeout);
    while_waiting();
    if (!check(keys)) throw std::runtime_error("it was not set");
  }

  ManualClock clock;
  int reads = 0;
  std::function<void()> while_waiting = [] {};
};

TEST(AgreedKeys, RankZeroReadsNoMoreOfWhatWasLeftThanItHasTimeFor) {
  const auto store = c10::make_intrusive<StoreInManualTime>();
  const Played ranks(store, 2);
  for (int number = 1; number <= 1'000; ++number) ranks.write("comes 1 name 1");
  EXPECT_THAT(prefix_of(store, 0, 2, 100ms, store->clock), HasSubstr("for want of rank 1:"));
  const int reads = store->reads;
  EXPECT_LE(reads, 100);
  EXPECT_EQ(ranks.word("known"), std::to_string(reads + 1)) << "where the next goes on";
}

// Nobody writes a line that would say so.
TEST(AgreedKeys, ARankZeroInWhosePlaceAnotherHasComeLooksForThat) {
  const auto store = c10::make_intrusive<StoreInManualTime>();
  store->while_waiting = [later = Played(store, 2)] { later.set("made/1", "replaced"); };
  EXPECT_THAT(prefix_of(store, 0, 2, 100s, store->clock), HasSubstr("another process has come for this rank"));
  EXPECT_LT(store->clock.monotonic(), 10s);
}

// The calls that change something of an attempt in which so many of the ranks come.
int calls_of(const StorePointer& store, int64_t come, int64_t world_size, std::chrono::milliseconds timeout) {
  constexpr int kMany = 1'000'000;
  std::vector<std::future<int>> calls;
  for (int64_t rank = 0; rank < come; ++rank) {
    calls.push_back(std::async(std::launch::async, [=] {
      const auto counting = c10::make_intrusive<DyingStore>(store, kMany);
      (void)prefix_of(counting, rank, world_size, timeout);
      return kMany - counting->left();
    }));
  }
  int all = 0;
  for (auto& one : calls) all += one.get();
  return all;
}

TEST(AgreedKeys, TakeAFewCallsForEachRankWhateverIsLeft) {
  constexpr int64_t kRanks = 32;
  const auto store = c10::make_intrusive<c10d::HashStore>();
  for (int64_t rank = 1; rank < kRanks; ++rank) (void)prefix_of(store, rank, kRanks, 1ms);
  EXPECT_LE(calls_of(store, kRanks, kRanks, kEnough), 20 * kRanks);
}

TEST(AgreedKeys, AttemptsThatNeverMeetDoNotMakeTheNextOnesDearer) {
  constexpr int64_t kRanks = 16;
  const auto store = c10::make_intrusive<c10d::HashStore>();
  for (int attempt = 0; attempt < 8; ++attempt) {
    EXPECT_LE(calls_of(store, kRanks - 1, kRanks, 200ms), 30 * kRanks) << attempt;
  }
  made(store, kRanks);
}

}  // namespace
}  // namespace paceline::comm
