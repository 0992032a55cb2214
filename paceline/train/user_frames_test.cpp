#include "paceline/train/user_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

// Outside of namespace paceline, as a user's functions are.
__attribute__((noinline)) void load_sample(int number) {
  if (number > 0) throw std::runtime_error("bad sample");
}
__attribute__((noinline)) void some_train_loop(int number) {
  load_sample(number);
  asm volatile("");  // no tail call
}

namespace paceline::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST(UserFrames, NameTheUsersFunctionsInnermostFirst) {
  const ThrowRecorder recorder;
  try {
    some_train_loop(1);
    FAIL();
  } catch (const std::runtime_error&) {
    const auto frames = frames_of_last_throw();
    ASSERT_GE(frames.size(), 2u);
    EXPECT_THAT(frames[0], StartsWith("load_sample(int)"));
    EXPECT_THAT(frames[1], StartsWith("some_train_loop(int)"));
  }
}

TEST(UserFrames, OfAThrowThatWasNotRecordedThereAreNone) {
  try {
    some_train_loop(1);
  } catch (const std::runtime_error&) {
  }
  const ThrowRecorder recorder;
  EXPECT_THAT(frames_of_last_throw(), IsEmpty());
}

}  // namespace
}  // namespace paceline::train
