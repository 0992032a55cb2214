#include <arrow/util/compression.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <atomic>
#include <future>

#include "paceline/core/posix/sealed_memory.h"
#include "paceline/testing/in_fork.h"
#include "paceline/train/worker/operator_profile_internal.h"

namespace paceline::train {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;

// While another thread multiplies.
template <class Profile>
auto while_multiplying(const Profile& profile) {
  (void)torch::ones({64, 64}).mm(torch::ones({64, 64}));  // the first takes long
  std::atomic<bool> is_over = false;
  auto training = std::async(std::launch::async, [&] {
    const torch::Tensor one = torch::ones({64, 64});
    while (!is_over) (void)one.mm(one);
  });
  auto taken = profile();
  is_over = true;
  training.get();
  return taken;
}

std::string unpacked(const std::string& bytes) {
  const auto codec = arrow::util::Codec::Create(arrow::Compression::GZIP).ValueOrDie();
  std::string text(size_t{64} << 20, '\0');
  const int64_t size = codec
                           ->Decompress(std::ssize(bytes), reinterpret_cast<const uint8_t*>(bytes.data()),
                                        std::ssize(text), reinterpret_cast<uint8_t*>(text.data()))
                           .ValueOrDie();
  text.resize(static_cast<size_t>(size));
  return text;
}

TEST(OperatorProfile, ATimelineHasTheOperatorsOfOtherThreads) {
  const OwnProfile taken = while_multiplying([] { return take_timeline(0.2); }).ValueOrDie();
  const std::string timeline = unpacked(taken.timeline);
  EXPECT_THAT(timeline, HasSubstr("traceEvents"));
  EXPECT_THAT(timeline, HasSubstr("aten::mm"));
  EXPECT_EQ(taken.profile.ways, std::vector<std::string>{"LibTorch"});
  EXPECT_TRUE(taken.profile.threads.empty());
}

TEST(OperatorProfile, MemoryIsThatOfTheOperatorsThatAllocate) {
  const OwnProfile taken = while_multiplying([] { return profile_allocations(0.2); });
  EXPECT_EQ(taken.profile.unit, stacks::kBytes);
  EXPECT_THAT(taken.profile.frames, Contains(Field(&stacks::StackFrame::function, "aten::mm")));
  EXPECT_GE(stacks::count_of({taken.profile}, stacks::kOperators), 64 * 64 * 4);
  EXPECT_EQ(stacks::count_of({taken.profile}, stacks::kOperators) % (64 * 64 * 4), 0);
  EXPECT_EQ(taken.timeline, "");
}

TEST(OperatorProfile, AfterOneThereMayBeAnother) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(while_multiplying([] { return take_timeline(0.1); }).ok());
    EXPECT_FALSE(while_multiplying([] { return profile_allocations(0.1); }).profile.threads.empty());
  }
}

// Whose locks are as they stood in the parent.
TEST(OperatorProfile, AForkIsNotWatched) {
  if (!testing::kForksBesideThreadsMayAllocate) GTEST_SKIP() << "forks cannot allocate";
  const OwnProfile taken = while_multiplying([] {
    auto profile = std::async(std::launch::async, [] { return profile_allocations(0.5); });
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(testing::holds_in_fork([] {
        const torch::NoGradGuard no_grad;
        return torch::empty({3}).sizes() == torch::IntArrayRef{3};
      }));
    }
    return profile.get();
  });
  EXPECT_FALSE(taken.profile.threads.empty());
}

TEST(OperatorProfile, TravelsAsALineAndWhatIsBehindIt) {
  OwnProfile taken{.profile = {.pid = 7, .ways = {"LibTorch"}}, .timeline = "the\ntimeline"};
  const SealedMemory memory = SealedMemory::open(memory_with(taken).ValueOrDie()).ValueOrDie();
  const std::string bytes(memory.bytes());
  const size_t end = bytes.find('\n');
  EXPECT_EQ(stacks::decode_profiles(bytes.substr(0, end + 1)).at(0).pid, 7);
  EXPECT_EQ(bytes.substr(end + 1), "the\ntimeline");
}

}  // namespace
}  // namespace paceline::train
