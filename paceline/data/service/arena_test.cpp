#include "paceline/data/service/arena.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace paceline::data {
namespace {

TEST(Arena, SlotsNeverOverlapAndMemoryComesBack) {
  const auto arena = Arena::create(int64_t{1} << 30, std::make_shared<Ledger>(0)).ValueOrDie();
  std::mt19937_64 random(1);
  std::map<int64_t, int64_t> used;
  for (int step = 0; step < 5000; ++step) {
    if (used.size() > 40 || (!used.empty() && random() % 2 == 0)) {
      auto slot = used.begin();
      std::advance(slot, static_cast<int64_t>(random() % used.size()));
      arena->free(slot->first);
      used.erase(slot);
      continue;
    }
    const Slot slot = arena->allocate(1 + static_cast<int64_t>(random() % 100'000)).ValueOrDie();
    const auto next = used.lower_bound(slot.offset);
    if (next != used.end()) {
      ASSERT_LE(slot.offset + slot.bytes, next->first);
    }
    if (next != used.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second, slot.offset);
    }
    used[slot.offset] = slot.bytes;
  }
  for (const auto& [offset, bytes] : used) arena->free(offset);
  EXPECT_EQ(arena->used_bytes(), 0);
  EXPECT_EQ(arena->allocate(arena->capacity())->offset, 0);
}

TEST(Arena, GivesMemoryBackThatIsNotNeededAgain) {
  const auto ledger = std::make_shared<Ledger>(int64_t{1} << 30);
  const auto arena = Arena::create(int64_t{1} << 30, ledger).ValueOrDie();
  const Slot kept = arena->allocate(4096).ValueOrDie();
  const Slot large = arena->allocate(int64_t{200} << 20).ValueOrDie();
  EXPECT_EQ(arena->touched_bytes(), 4096 + large.bytes);
  arena->free(large.offset);
  EXPECT_EQ(arena->touched_bytes(), 2 * 4096 + (int64_t{64} << 20));
  EXPECT_EQ(arena->allocate(int64_t{64} << 20)->offset, large.offset);  // what was touched before
  arena->free(large.offset);
  arena->free(kept.offset);
}

TEST(Arena, KeepsNothingForWhichTheBudgetHasNoRoom) {
  const auto ledger = std::make_shared<Ledger>(int64_t{10} << 20);
  const auto arena = Arena::create(int64_t{1} << 30, ledger).ValueOrDie();
  for (const Slot& slot : {arena->allocate(int64_t{6} << 20).ValueOrDie(), arena->allocate(4096).ValueOrDie()}) {
    arena->free(slot.offset);
  }
  EXPECT_EQ(arena->touched_bytes(), (int64_t{6} << 20) + 4096);
  const auto others = Ledger::reserve(ledger, int64_t{8} << 20);
  ledger->trim_spare();
  EXPECT_EQ(arena->touched_bytes(), int64_t{2} << 20);
}

TEST(Arena, SaysWhoHoldsItsMemory) {
  const auto ledger = std::make_shared<Ledger>(8192);
  const auto arena = Arena::create(3 * 4096, ledger).ValueOrDie();
  const Slot slot = arena->allocate(5000).ValueOrDie();
  EXPECT_NE(arena->allocate(5000).status().message().find("still holds 1 batches with 8192 of the 12288 bytes"),
            std::string::npos);
  EXPECT_EQ(ledger->held(), 8192);
  arena->free(slot.offset + 4096);  // no slot begins there
  EXPECT_EQ(arena->used_bytes(), 8192);
  arena->free(slot.offset);
  arena->free(slot.offset);
  EXPECT_EQ(ledger->held(), 0);
  EXPECT_TRUE(arena->allocate(3 * 4096).ok());
}

}  // namespace
}  // namespace paceline::data
