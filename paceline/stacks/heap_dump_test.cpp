#include "paceline/stacks/heap_dump.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "paceline/core/posix/sealed_memory.h"
#include "paceline/stacks/heap_profiler.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::stacks {

[[gnu::noipa]] void* allocate_what_the_test_keeps(size_t bytes) {
  void* allocated = std::malloc(bytes);
  asm volatile("" : "+r"(allocated));  // so that this function is on the stack
  return allocated;
}

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kDump =
    "heap_v2/524288\n"
    "  t*: 3: 2097216 [0: 0]\n"
    "  t0: 3: 2097216 [0: 0]\n"
    "@ 0x1001 0x2001\n"
    "  t*: 2: 2097152 [0: 0]\n"
    "  t0: 2: 2097152 [0: 0]\n"
    "@ 0x3001\n"
    "  t*: 1: 64 [0: 0]\n"
    "@ 0x4001\n"
    "  t*: 0: 0 [5: 640]\n"
    "@ nothing\n"
    "  t*: 1: 64 [0: 0]\n"
    "\n"
    "MAPPED_LIBRARIES:\n"
    "7f00-7f01 r-xp 0 00:00 1  /usr/bin/train\n";

TEST(HeapDump, EstimatesWhatIsInUseByStack) {
  const HeapDump heap = parse_heap_dump(kDump).ValueOrDie();
  ASSERT_EQ(heap.stacks.size(), 2u);
  EXPECT_THAT(heap.stacks[0].addresses, ElementsAre(0x1000, 0x2000));
  EXPECT_NEAR(static_cast<double>(heap.stacks[0].bytes), 2097152 / (1 - std::exp(-2.0)), 2);
  EXPECT_THAT(heap.stacks[1].addresses, ElementsAre(0x3000));
  EXPECT_NEAR(static_cast<double>(heap.stacks[1].bytes), 524288 + 32, 2) << "one in 8192 is noted";
  EXPECT_EQ(heap.maps, "7f00-7f01 r-xp 0 00:00 1  /usr/bin/train\n");
}

TEST(HeapDump, RefusesWhatIsNone) {
  for (const char* text : {"", "heap_v2/", "heap_v2/0\n", "heap profile: 1: 2", "{}"}) {
    EXPECT_TRUE(parse_heap_dump(text).status().IsInvalid()) << text;
  }
}

TEST(HeapProfiler, SaysThatThereIsNoLibraryOrPutsItFirst) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "libjemalloc.so.2", "");
  std::map<std::string, std::string> environment{
      {"LD_LIBRARY_PATH", "/nowhere:" + folder.path()}, {"LD_PRELOAD", "mine.so"}, {"MALLOC_CONF", "narenas:2"}};
  ASSERT_TRUE(preload_heap_profiler(environment).ok());
  EXPECT_EQ(environment["LD_PRELOAD"], folder / "libjemalloc.so.2:mine.so");
  EXPECT_THAT(environment["MALLOC_CONF"], StartsWith("narenas:2,prof:true"));
  std::map<std::string, std::string> bare;
  if (const arrow::Status status = preload_heap_profiler(bare); !status.ok()) {  // the machine has none
    EXPECT_TRUE(status.IsInvalid());
    EXPECT_THAT(status.message(), HasSubstr("apt install libjemalloc2"));
    EXPECT_TRUE(bare.empty());
  }
  ::setenv("LD_PRELOAD", environment["LD_PRELOAD"].c_str(), 1);
  keep_heap_profiler_from_children();
  EXPECT_STREQ(::getenv("LD_PRELOAD"), "mine.so");
  ::unsetenv("LD_PRELOAD");
}

// This program again, with jemalloc, in which alone the second half runs.
TEST(HeapProfiler, ShowsWhoHasAllocatedWhatIsInUse) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's allocator has to be the only one";
#endif
  if (heap_is_profiled()) {
    void* volatile kept = allocate_what_the_test_keeps(size_t{64} << 20);
    std::free(allocate_what_the_test_keeps(size_t{512} << 20));
    const SealedMemory dump = SealedMemory::open(dump_heap().ValueOrDie()).ValueOrDie();
    ASSERT_TRUE(is_heap_dump(dump.bytes()));
    Symbols symbols;
    const Profile profile = profile_of(parse_heap_dump(dump.bytes()).ValueOrDie(), ::getpid(), symbols);
    const std::string folded = to_folded({profile});
    const auto shares = function_shares({profile}, kNativeCode);
    const auto share = std::ranges::find_if(shares, [](const FunctionShare& one) {
      return one.function.find("allocate_what_the_test_keeps") != std::string::npos;
    });
    ASSERT_NE(share, shares.end()) << folded;
    EXPECT_NEAR(static_cast<double>(share->own), 64 << 20, 1 << 20) << folded;
    EXPECT_EQ(profile.unit, kBytes);
    std::free(kept);
    return;
  }
  std::map<std::string, std::string> environment;
  if (const char* const path = std::getenv("LD_LIBRARY_PATH")) environment["LD_LIBRARY_PATH"] = path;
  if (const arrow::Status status = preload_heap_profiler(environment); !status.ok()) GTEST_SKIP() << status.message();
  const pid_t pid = ::fork();
  if (pid == 0) {
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::execl("/proc/self/exe", "stacks_test", "--gtest_filter=HeapProfiler.ShowsWhoHasAllocatedWhatIsInUse", nullptr);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace paceline::stacks
