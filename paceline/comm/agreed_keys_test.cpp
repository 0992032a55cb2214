#include <gmock/gmock.h>

#include <future>
#include <set>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "paceline/comm/agreed_keys_internal.h"
#include "paceline/core/error.h"

namespace paceline::comm {
namespace {

using namespace std::chrono_literals;
using StorePointer = c10::intrusive_ptr<c10d::Store>;

constexpr auto kEnough = 50s;

// What c10d shows to nobody.
struct Prefix : c10d::PrefixStore {
  static std::string of(const PrefixStore& store) { return store.*(&Prefix::prefix_); }
};

// The prefix, or why there is none.
std::string prefix_of(const StorePointer& store, int64_t rank, int64_t world_size,
                      std::chrono::milliseconds timeout = kEnough) {
  try {
    return Prefix::of(dynamic_cast<const c10d::PrefixStore&>(*agree_on_keys(store, rank, world_size, timeout)));
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
  for (int64_t rank = 0; rank < world_size; ++rank) ranks.push_back(begin(store, rank, world_size));
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

// Whose process is killed behind `calls` of set() and add().
class DyingStore final : public c10d::Store {
 public:
  struct Killed : std::exception {};
  DyingStore(StorePointer store, int calls) : store_(std::move(store)), left_(calls) {}
  c10::intrusive_ptr<Store> clone() override { return store_; }
  void set(const std::string& key, const std::vector<uint8_t>& value) override { live().set(key, value); }
  int64_t add(const std::string& key, int64_t value) override { return live().add(key, value); }
  std::vector<uint8_t> get(const std::string& key) override { return store_->get(key); }
  bool deleteKey(const std::string& key) override { return store_->deleteKey(key); }
  bool check(const std::vector<std::string>& keys) override { return store_->check(keys); }
  int64_t getNumKeys() override { return store_->getNumKeys(); }
  void wait(const std::vector<std::string>& keys) override { store_->wait(keys); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    store_->wait(keys, timeout);
  }

 private:
  Store& live() {
    if (left_-- == 0) throw Killed();
    return *store_;
  }

  const StorePointer store_;
  int left_;
};

// Whichever rank is killed wherever, it and the others, or others in the others' place too, get there afterwards.
TEST(AgreedKeys, WhoeverIsKilledWhileTheyAgreeDoesNotKeepTheNextFromIt) {
  constexpr int64_t kRanks = 2;
  for (int64_t killed = 0; killed < kRanks; ++killed) {
    bool was_killed = true;
    for (int calls = 0; was_killed; ++calls) {
      SCOPED_TRACE("rank " + std::to_string(killed) + " behind " + std::to_string(calls) + " calls");
      const auto store = c10::make_intrusive<c10d::HashStore>();
      auto other = begin(store, 1 - killed, kRanks, 200ms);
      try {
        (void)agree_on_keys(c10::make_intrusive<DyingStore>(store, calls), killed, kRanks, 200ms);
        was_killed = false;
      } catch (const std::exception&) {
        was_killed = true;  // or the other gave up meanwhile
      }
      other.get();
      made(store, kRanks);
      made(store, kRanks);
    }
  }
}

TEST(AgreedKeys, WhoComesAgainIsTakenForTheOneThatCameBefore) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_THAT(prefix_of(store, 1, 2, 1ms), ::testing::HasSubstr("rank 1 of 2 cannot meet rank 0"));
  EXPECT_THAT(prefix_of(store, 2, 3, 1ms), ::testing::HasSubstr("rank 2 of 3 cannot meet rank 0"));
  made(store, 2);
  made(store, 3);
}

TEST(AgreedKeys, WhoDoesNotComeIsNamed) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  auto one = begin(store, 1, 4, 100ms);
  EXPECT_THAT(prefix_of(store, 0, 4, 100ms), ::testing::HasSubstr("rank 0 of 4 cannot meet ranks 1, 2, 3: no word"));
  EXPECT_THAT(one.get(), ::testing::HasSubstr("cannot meet rank 0"));
}

}  // namespace
}  // namespace paceline::comm
