#include "paceline/data/memory/kept_pages.h"

#include <arrow/memory_pool.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "paceline/data/memory/decoding.h"
#include "paceline/data/memory/reading_memory.h"

namespace paceline::data {
namespace {

constexpr int64_t kMegabyte = int64_t{1} << 20;

class KeptPagesTest : public ::testing::Test {
 protected:
  ~KeptPagesTest() override { pages_->leave(ledger_); }

  const std::shared_ptr<Ledger> ledger_ = std::make_shared<Ledger>(16 * kMegabyte);
  const std::shared_ptr<KeptPages> pages_ = [this] {
    auto pages = std::make_shared<KeptPages>();
    ledger_->add_spare(pages);
    pages->count_in(ledger_);
    return pages;
  }();
};

TEST_F(KeptPagesTest, ABlockIsUsedAgainForOneOfItsSize) {
  for (const int64_t bytes : {KeptPages::kSmallest, kMegabyte, 5 * kMegabyte + 1}) {
    uint8_t* const first = pages_->allocate(bytes);
    std::memset(first, 1, static_cast<size_t>(bytes));
    pages_->free(first, bytes);
    uint8_t* const other = pages_->allocate(2 * bytes);
    EXPECT_EQ(pages_->allocate(bytes), first);
    pages_->free(first, bytes);
    pages_->free(other, 2 * bytes);
  }
}

TEST_F(KeptPagesTest, KeepsNoMoreThanTheLedgerHasRoomFor) {
  std::vector<uint8_t*> blocks;
  for (int i = 0; i < 32; ++i) blocks.push_back(pages_->allocate(kMegabyte));
  EXPECT_EQ(pages_->bytes(), 32 * kMegabyte);
  for (uint8_t* const block : blocks) pages_->free(block, kMegabyte);
  EXPECT_EQ(pages_->bytes(), 16 * kMegabyte);
  {
    const auto others = Ledger::reserve(ledger_, 10 * kMegabyte);
    ledger_->trim_spare();
    EXPECT_EQ(pages_->bytes(), 6 * kMegabyte);
    {
      const Decoding decoding(ledger_, 4 * kMegabyte);  // reserved, and not in use yet
      for (int i = 0; i < 12; ++i) blocks[static_cast<size_t>(i)] = pages_->allocate(kMegabyte);
      for (int i = 0; i < 12; ++i) pages_->free(blocks[static_cast<size_t>(i)], kMegabyte);
      EXPECT_EQ(pages_->bytes(), 10 * kMegabyte);
      Decoding::has_allocated(3 * kMegabyte);
      ledger_->trim_spare();
      EXPECT_EQ(pages_->bytes(), 7 * kMegabyte);
    }
    EXPECT_EQ(pages_->bytes(), 6 * kMegabyte);
  }
  pages_->leave(ledger_);
  EXPECT_EQ(pages_->bytes(), 0) << "without a ledger";
}

TEST_F(KeptPagesTest, TheOldestGoFirst) {
  uint8_t* const small = pages_->allocate(kMegabyte);
  uint8_t* const large = pages_->allocate(8 * kMegabyte);
  pages_->free(large, 8 * kMegabyte);
  pages_->free(small, kMegabyte);
  pages_->keep_at_most(2 * kMegabyte);
  EXPECT_EQ(pages_->bytes(), kMegabyte);
  EXPECT_EQ(pages_->allocate(kMegabyte), small);
  pages_->free(small, kMegabyte);
}

TEST_F(KeptPagesTest, AnotherSizeHasTheSameContent) {
  std::mt19937 random(1);
  std::vector<uint8_t> wanted(64 * 1024);
  std::ranges::generate(wanted, [&] { return static_cast<uint8_t>(random()); });
  auto bytes = static_cast<int64_t>(wanted.size());
  uint8_t* block = pages_->allocate(bytes);
  std::ranges::copy(wanted, block);
  for (int i = 0; i < 100; ++i) {
    const auto next = static_cast<int64_t>(KeptPages::kSmallest + random() % (4 * kMegabyte));
    block = pages_->resize(block, bytes, next);
    bytes = next;
    ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), block));
    block[bytes - 1] = block[bytes - 1];
  }
  pages_->free(block, bytes);
}

TEST_F(KeptPagesTest, AForkUsesTheBlocksThatItHasAndKeepsNone) {
  uint8_t* const block = pages_->allocate(kMegabyte);
  uint8_t* const kept = pages_->allocate(kMegabyte);
  block[0] = 7;
  pages_->free(kept, kMegabyte);
  const pid_t child = ::fork();
  if (child == 0) {
    uint8_t* const own = pages_->allocate(kMegabyte);
    own[0] = 1;
    const bool is_well = block[0] == 7 && own != kept;
    pages_->free(own, kMegabyte);
    pages_->free(block, kMegabyte);
    ::_exit(is_well ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(pages_->allocate(kMegabyte), kept);
  pages_->free(kept, kMegabyte);
  pages_->free(block, kMegabyte);
}

TEST(ReadingMemory, BlocksGrowFromSmallToLargeAndBack) {
  arrow::MemoryPool* const pool = reading_memory();
  const int64_t before = pool->bytes_allocated();
  uint8_t* memory = nullptr;
  int64_t bytes = 100;
  ASSERT_TRUE(pool->Allocate(bytes, 64, &memory).ok());
  std::memset(memory, 3, 100);
  for (const int64_t next : {1'000, 200'000, 3'000'000, 100'000, 70'000, 500, 100}) {
    ASSERT_TRUE(pool->Reallocate(bytes, next, 64, &memory).ok());
    bytes = next;
    EXPECT_EQ(pool->bytes_allocated() - before, bytes);
    EXPECT_TRUE(std::all_of(memory, memory + 100, [](uint8_t byte) { return byte == 3; })) << next;
  }
  pool->Free(memory, bytes, 64);
  EXPECT_EQ(pool->bytes_allocated(), before);
}

}  // namespace
}  // namespace paceline::data
