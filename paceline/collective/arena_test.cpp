#include "paceline/collective/arena.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "paceline/core/posix/kernel_file.h"
#include "paceline/core/posix/memory_limit.h"
#include "paceline/testing/in_fork.h"

namespace paceline::collective {
namespace {

using ::testing::HasSubstr;

class LimitedResource {
 public:
  LimitedResource(__rlimit_resource resource, uint64_t bytes) : resource_(resource) {
    ::getrlimit(resource_, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(resource_, &limit);
  }
  ~LimitedResource() { ::setrlimit(resource_, &before_); }

 private:
  const __rlimit_resource resource_;
  rlimit before_{};
};

// A control group of the memory controller with a limit; "" where none can be made.
std::string limited_group(int64_t bytes) {
  for (const auto& [folder, version] : memory_groups(read_kernel_file("/proc/self/cgroup"))) {
    const std::string made = folder + "/paceline_test_" + std::to_string(::getpid());
    if (::mkdir(made.c_str(), 0755) != 0) continue;
    const std::string limit = made + (version == 2 ? "/memory.max" : "/memory.limit_in_bytes");
    if (::access(limit.c_str(), W_OK) == 0 && (std::ofstream(limit) << bytes << std::flush)) return made;
    ::rmdir(made.c_str());
  }
  return "";
}

TEST(Arena, TakesAPartOfALimitedAddressSpace) {
  constexpr uint64_t kLimit = uint64_t{1} << 45;  // more than the sanitizers take
  const uint64_t unlimited = heap_bytes(1);
  {
    const LimitedResource limited(RLIMIT_FSIZE, (uint64_t{1} << 30) + 1000);
    EXPECT_LT(heap_bytes(1), uint64_t{1} << 30);
    EXPECT_TRUE(Arena::create(heap_bytes(1)).ok());
  }
  {
    const LimitedResource limited(RLIMIT_FSIZE, 1000);
    const auto none = Arena::create(heap_bytes(1));
    EXPECT_THAT(none.status().message(), HasSubstr("got the limit 1000 (ulimit -f)"));
  }
  EXPECT_LE(heap_bytes(64), (uint64_t{1} << 47) / 64 / 8);
  EXPECT_GE(unlimited, heap_bytes(64));
  const LimitedResource limited(RLIMIT_AS, kLimit);
  EXPECT_LE(heap_bytes(64), kLimit / 64 / 8);
}

TEST(Arena, RaisesTheLimitOfDescriptors) {
  const LimitedResource limited(RLIMIT_NOFILE, 3);
  EXPECT_TRUE(Arena::create(1 << 20).ok());
}

TEST(Arena, AForkReadsItsParentsBlocksAndWritesToItsOwnPages) {
  const auto arena = Arena::create(1 << 20).ValueOrDie();
  auto* const values = static_cast<int*>(arena->allocate(1 << 16).ValueOrDie());
  values[0] = 7;
  EXPECT_TRUE(testing::holds_in_fork([&] {
    const bool is_read = values[0] == 7;
    values[0] = 8;
    arena->board().version = 0;
    return is_read && values[0] == 8;
  }));
  EXPECT_EQ(values[0], 7);
  EXPECT_NE(arena->board().version, 0u);
}

TEST(Arena, GivesBackWhatIsFreed) {
  const auto arena = Arena::create(1 << 24).ValueOrDie();
  void* const first = arena->allocate(1 << 23).ValueOrDie();
  void* const second = arena->allocate(1 << 22).ValueOrDie();
  EXPECT_TRUE(arena->allocate(1 << 23).status().IsCapacityError());
  arena->free(first);
  EXPECT_EQ(arena->allocate(1 << 23).ValueOrDie(), first);
  arena->free(second);
  arena->free(first);
  EXPECT_NE(arena->allocate(1 << 24).ValueOrDie(), nullptr);  // in one piece again
}

uint64_t bytes_with_pages(const Arena& arena) {
  struct stat status{};
  ::fstat(arena.memory().descriptor().get(), &status);
  return static_cast<uint64_t>(status.st_blocks) * 512;
}

TEST(Arena, ABlockHasItsPagesFromTheBeginning) {
  const auto arena = Arena::create(1 << 26).ValueOrDie();
  const uint64_t before = bytes_with_pages(*arena);
  ASSERT_TRUE(arena->allocate(5 << 20).ok());
  EXPECT_GE(bytes_with_pages(*arena), before + (5 << 20));
}

TEST(Arena, PagesOfFreedBlocksAreUsedAgain) {
  const auto arena = Arena::create(1 << 26).ValueOrDie();
  void* const first = arena->allocate(8 << 20).ValueOrDie();
  const uint64_t of_one = bytes_with_pages(*arena);
  arena->free(first);
  EXPECT_EQ(bytes_with_pages(*arena), of_one);
  void* const half = arena->allocate(4 << 20).ValueOrDie();
  void* const rest = arena->allocate(4 << 20).ValueOrDie();
  EXPECT_EQ(bytes_with_pages(*arena), of_one);
  arena->free(half);
  arena->free(rest);
  EXPECT_EQ(arena->allocate(8 << 20).ValueOrDie(), first);
  EXPECT_EQ(bytes_with_pages(*arena), of_one);
}

TEST(Arena, PagesOfFreedBlocksGoBackWhereTheirPlaceIsWanted) {
  const auto arena = Arena::create(1 << 24).ValueOrDie();
  const uint64_t without = bytes_with_pages(*arena);
  arena->free(arena->allocate(1 << 22).ValueOrDie());
  void* const all = arena->allocate(1 << 24).ValueOrDie();  // what was freed lies in its midst
  EXPECT_EQ(bytes_with_pages(*arena), without + (1 << 24));
  arena->free(all);
}

// Blocks never overlap, and all of the heap is to be had when they are freed, whatever the order.
TEST(Arena, BlocksAreApart) {
  std::mt19937 random(7);
  const auto arena = Arena::create(1 << 24).ValueOrDie();
  std::map<std::byte*, size_t> blocks;
  for (int round = 0; round < 2000; ++round) {
    if (random() % 2 == 0) {
      const size_t bytes = 1 + random() % (1 << 20);
      const auto block = arena->allocate(bytes);
      if (!block.ok()) continue;
      const auto [place, is_new] = blocks.emplace(static_cast<std::byte*>(*block), bytes);
      ASSERT_TRUE(is_new);
      const auto next = std::next(place);
      if (next != blocks.end()) {
        ASSERT_LE(place->first + bytes, next->first);
      }
      if (place != blocks.begin()) {
        ASSERT_LE(std::prev(place)->first + std::prev(place)->second, place->first);
      }
    } else if (!blocks.empty()) {
      const auto any = std::next(blocks.begin(), static_cast<std::ptrdiff_t>(random() % blocks.size()));
      arena->free(any->first);
      blocks.erase(any);
    }
  }
  for (const auto& [block, bytes] : blocks) arena->free(block);
  EXPECT_TRUE(arena->allocate(1 << 24).ok());
}

TEST(Arena, WhatIsTakenOutIsOutOfReach) {
  const auto arena = Arena::create(1 << 24).ValueOrDie();
  const ArenaView other = Arena::open(arena->memory().descriptor().duplicate().ValueOrDie()).ValueOrDie();
  constexpr size_t kBytes = 5 << 20;
  auto* const block = static_cast<std::byte*>(arena->allocate(kBytes).ValueOrDie());
  auto* const beside = static_cast<std::byte*>(arena->allocate(4096).ValueOrDie());
  const uint64_t offset = arena->offset_of(block).value();
  std::fill_n(block, kBytes, std::byte{1});
  for (int time = 0; time < 2; ++time) arena->take_out(offset, kBytes);
  std::fill_n(other.at(offset), kBytes, std::byte{9});
  EXPECT_TRUE(std::all_of(block, block + kBytes, [](std::byte one) { return one == std::byte{1}; }));
  *other.at(arena->offset_of(beside).value()) = std::byte{3};
  EXPECT_EQ(*beside, std::byte{3});
  block[kBytes - 1] = std::byte{5};
  EXPECT_TRUE(testing::holds_in_fork([&] {
    const bool is_read = block[0] == std::byte{1} && block[kBytes - 1] == std::byte{5} && *beside == std::byte{3};
    block[0] = *beside = std::byte{8};
    return is_read;
  }));
  EXPECT_EQ(block[0], std::byte{1});
  EXPECT_EQ(*beside, std::byte{3});
  arena->free(block);
  arena->keep_no_more();
  auto* const again = static_cast<std::byte*>(arena->allocate(kBytes).ValueOrDie());
  again[0] = std::byte{2};
  EXPECT_NE(*other.at(offset), std::byte{2});
}

// Other tensors of the block may be in the same pages.
TEST(Arena, WhatIsBesideWhatIsTakenOutStays) {
  const auto arena = Arena::create(1 << 24).ValueOrDie();
  auto* const block = static_cast<std::byte*>(arena->allocate(1 << 20).ValueOrDie());
  const uint64_t offset = arena->offset_of(block).value();
  std::mt19937_64 random(1);
  for (int time = 0; time < 200; ++time) {
    const uint64_t from = random() % (1 << 15), bytes = 1 + random() % (1 << 15);
    const auto value = static_cast<std::byte>(time);
    std::fill_n(block, 1 << 16, value);
    ASSERT_TRUE(arena->take_out(offset + from, bytes));
    ASSERT_TRUE(std::all_of(block, block + (1 << 16), [value](std::byte one) { return one == value; })) << from;
  }
}

// A rank may have many: sub-groups, and groups that were split off.
TEST(Arena, TheGroupsOfARankKeepAQuarterOfTheMemoryTogether) {
  constexpr int64_t kLimit = int64_t{256} << 20;
  const std::string group = limited_group(kLimit);
  if (group.empty()) GTEST_SKIP() << "no control group can be made here";
  EXPECT_TRUE(testing::holds_in_fork([&] {
    std::ofstream(group + "/cgroup.procs") << ::getpid() << std::flush;
    std::vector<std::shared_ptr<Arena>> arenas;
    const int64_t before = memory_left().bytes;
    for (int count = 0; count < 6; ++count) {
      arenas.push_back(Arena::create(1 << 30).ValueOrDie());
      arenas.back()->free(arenas.back()->allocate(static_cast<size_t>(before) / 8).ValueOrDie());
    }
    if (before - memory_left().bytes > before / 3) return false;
    return arenas.front()->allocate(static_cast<size_t>(before) * 3 / 4).ok();  // for which the others give theirs back
  }));
  ::rmdir(group.c_str());
}

TEST(Arena, SaysHowMuchThereIs) {
  const auto arena = Arena::create(heap_bytes(1)).ValueOrDie();
  const arrow::Status status = arena->allocate(size_t{1} << 50).status();
  EXPECT_TRUE(status.IsOutOfMemory());
  EXPECT_THAT(status.message(), HasSubstr("wanted 1.0 PiB of shared memory"));
}

}  // namespace
}  // namespace paceline::collective
