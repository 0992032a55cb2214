#include "paceline/collective/arena.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

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

TEST(Arena, SaysHowMuchThereIs) {
  const auto arena = Arena::create(heap_bytes(1)).ValueOrDie();
  const arrow::Status status = arena->allocate(size_t{1} << 50).status();
  EXPECT_TRUE(status.IsOutOfMemory());
  EXPECT_THAT(status.message(), HasSubstr("wanted 1.0 PiB of shared memory"));
}

}  // namespace
}  // namespace paceline::collective
