#include <arrow/util/compression.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "paceline/core/json.h"
#include "paceline/core/posix/sealed_memory.h"
#include "paceline/testing/in_fork.h"
#include "paceline/train/worker/operator_profile_internal.h"

namespace paceline::train {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

int64_t no_steps() {
  return 0;
}

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
  const OwnProfile taken = while_multiplying([] { return take_timeline(0.2, 0, no_steps); }).ValueOrDie();
  const std::string timeline = unpacked(taken.timeline);
  EXPECT_THAT(timeline, HasSubstr("traceEvents"));
  EXPECT_THAT(timeline, HasSubstr("aten::mm"));
  EXPECT_EQ(taken.profile.ways, std::vector<std::string>{"LibTorch"});
  EXPECT_TRUE(taken.profile.threads.empty());
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// A loop of steps of three products each, which goes on while `profile` is taken.
arrow::Result<OwnProfile> timeline_of_steps(double seconds, int64_t steps, int64_t first = 7) {
  (void)torch::ones({64, 64}).mm(torch::ones({64, 64}));  // the first takes long
  std::atomic<int64_t> step = first;
  std::atomic<bool> is_over = false;
  auto training = std::async(std::launch::async, [&] {
    const torch::Tensor one = torch::ones({64, 64});
    for (; !is_over; ++step) {
      for (int i = 0; i < 3; ++i) (void)one.mm(one);
    }
  });
  auto taken = take_timeline(seconds, steps, [&] { return step.load(); });
  is_over = true;
  training.get();
  return taken;
}

TEST(OperatorProfile, ATimelineOfStepsHasThemWhole) {
  const OwnProfile taken = timeline_of_steps(60, 5).ValueOrDie();
  const std::string timeline = unpacked(taken.timeline);
  EXPECT_EQ(count(timeline, "aten::mm"), 5 * 3);
  EXPECT_EQ(count(timeline, R"("cat":"step")"), 5);
  EXPECT_TRUE(taken.profile.problems.empty());
  EXPECT_TRUE(taken.profile.seconds > 0 && taken.profile.seconds < 60) << taken.profile.seconds;
  EXPECT_TRUE(decode_json(timeline).ok());
}

TEST(OperatorProfile, ATimelineOfTheFirstStepsHasThemWhole) {
  const OwnProfile taken = timeline_of_steps(60, 5, /*first=*/0).ValueOrDie();
  EXPECT_EQ(count(unpacked(taken.timeline), "aten::mm"), 5 * 3);
  EXPECT_TRUE(taken.profile.problems.empty());
}

TEST(OperatorProfile, ATimelineOfATimeShowsItsSteps) {
  const std::string timeline = unpacked(timeline_of_steps(0.3, 0).ValueOrDie().timeline);
  EXPECT_THAT(timeline, HasSubstr(R"("cat":"step")"));
}

TEST(OperatorProfile, StepsThatDoNotEndAreTold) {
  const OwnProfile none = while_multiplying([] { return take_timeline(0.05, 3, [] { return 4; }); }).ValueOrDie();
  EXPECT_THAT(none.profile.problems, ElementsAre(HasSubstr("no step began within 0.05 s: a step is a batch")));
  EXPECT_THAT(unpacked(none.timeline), Not(HasSubstr("aten::mm")));
  const OwnProfile without = while_multiplying([] { return take_timeline(0.05, 3, no_steps); }).ValueOrDie();
  EXPECT_THAT(without.profile.problems, ElementsAre(HasSubstr("; these are the operators of that time")));
  EXPECT_THAT(unpacked(without.timeline), HasSubstr("aten::mm"));
  std::atomic<int> looks = 0;
  const OwnProfile some =
      while_multiplying([&] { return take_timeline(0.05, 3, [&] { return std::min(2, looks++); }); }).ValueOrDie();
  EXPECT_THAT(some.profile.problems, ElementsAre("1 of 3 steps ended within 0.05 s"));
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
    EXPECT_TRUE(while_multiplying([] { return take_timeline(0.1, 0, no_steps); }).ok());
    EXPECT_FALSE(while_multiplying([] { return profile_allocations(0.1); }).profile.threads.empty());
  }
}

// Whose locks are as they stood in the parent.
TEST(OperatorProfile, AForkIsNotWatched) {
  if (!testing::kForksBesideThreadsMayAllocate) GTEST_SKIP() << "forks cannot allocate";
  const OwnProfile taken = while_multiplying([] {
    auto profile = std::async(std::launch::async, [] { return profile_allocations(0.5); });
    while (!at::hasGlobalCallbacks()) std::this_thread::yield();
    (void)torch::empty({3});  // LibTorch locks its list when a thread first sees that it has changed
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
