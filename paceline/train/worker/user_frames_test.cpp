#include "paceline/train/worker/user_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <stdexcept>
#include <thread>

#include "paceline/core/dictionary.h"
#include "paceline/train/worker/failure_internal.h"

// Outside of Paceline's namespace and folder, as a user's functions are.
#line 1 "/home/user/program.cpp"
__attribute__((noinline)) void load_sample(int number) {
  if (number > 0) throw std::runtime_error("bad sample");
}
__attribute__((noinline)) void some_train_loop(int number) {
  load_sample(number);
  asm volatile("");  // no tail call
}
__attribute__((noinline)) void look_for_a_file() {
  throw std::invalid_argument("no such file");
}

__attribute__((noinline)) void ask_for_a_number(const paceline::Config& config) {
  config.get<int64_t>("rate");
}

__attribute__((noinline)) void classify(torch::nn::Linear model, const torch::Tensor& batch) {
  model->forward(batch);
}
#line 34 "paceline/train/worker/user_frames_test.cpp"

namespace paceline::train {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::exception_ptr caught(const std::function<void()>& body) {
  try {
    body();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

TEST(UserFrames, NameTheUsersFunctionsInnermostFirst) {
  const ThrowRecorder recorder;
  const auto frames = frames_of(caught([] { some_train_loop(1); }));
  ASSERT_GE(frames.size(), 2u);
  EXPECT_THAT(frames[0], StartsWith("load_sample(int)"));
  EXPECT_THAT(frames[1], StartsWith("some_train_loop(int)"));
}

TEST(UserFrames, LeaveOutPacelinesOwnInlinedOrNot) {
  const ThrowRecorder recorder;
  const auto frames = frames_of(caught([] { ask_for_a_number({{"rate", "fast"}}); }));
  ASSERT_THAT(frames, Not(IsEmpty()));
  EXPECT_THAT(frames[0], "ask_for_a_number(paceline::Dictionary const&) (program.cpp:13)");
  EXPECT_THAT(frames, Each(Not(HasSubstr("get"))));
}

TEST(UserFrames, OfABatchThatDoesNotFitTheModelAreTheUsers) {
  const ThrowRecorder recorder;
  const auto failed = failure_of(caught([] { classify(torch::nn::Linear(2, 1), torch::ones({4, 3})); }));
  EXPECT_EQ(failed.text, "mat1 and mat2 shapes cannot be multiplied (4x3 and 2x1)");
  ASSERT_THAT(failed.frames, Not(IsEmpty()));
  EXPECT_THAT(failed.frames[0], AllOf(StartsWith("classify("), EndsWith("(program.cpp:17)")));
}

TEST(UserFrames, OfAThrowThatWasNotRecordedThereAreNone) {
  const auto exception = caught([] { some_train_loop(1); });
  const ThrowRecorder recorder;
  EXPECT_THAT(frames_of(exception), IsEmpty());
  EXPECT_THAT(frames_of(nullptr), IsEmpty());
}

TEST(UserFrames, AreThoseOfTheExceptionNotOfTheLastThrow) {
  const ThrowRecorder recorder;
  const auto exception = caught([] { some_train_loop(1); });
  caught([] { look_for_a_file(); });
  EXPECT_THAT(frames_of(exception).at(0), StartsWith("load_sample(int)"));
}

TEST(UserFrames, OfAnotherThreadsExceptionStayWithIt) {
  const ThrowRecorder recorder;
  std::exception_ptr exception;
  std::thread([&exception] { exception = caught([] { some_train_loop(1); }); }).join();
  const auto rethrown = caught([&exception] { std::rethrow_exception(exception); });
  EXPECT_THAT(frames_of(rethrown).at(0), StartsWith("load_sample(int)"));
}

TEST(UserFrames, OldThrowsAreForgottenRatherThanMistaken) {
  const ThrowRecorder recorder;
  const auto exception = caught([] { some_train_loop(1); });
  std::vector<std::exception_ptr> later;
  for (int i = 0; i < 100; ++i) later.push_back(caught([] { look_for_a_file(); }));
  EXPECT_THAT(frames_of(exception), IsEmpty());
  EXPECT_THAT(frames_of(later.back()).at(0), StartsWith("look_for_a_file()"));
}

TEST(Failure, OfNestedExceptionsTheInnermostIsTheCause) {
  const ThrowRecorder recorder;
  const auto failed = failure_of(caught([] {
    try {
      some_train_loop(1);
    } catch (const std::exception& error) {
      std::throw_with_nested(std::logic_error(std::string("the dataset failed at row 17: ") + error.what()));
    }
  }));
  EXPECT_EQ(failed.kind, "std::runtime_error");
  EXPECT_EQ(failed.text, "the dataset failed at row 17: bad sample");
  ASSERT_FALSE(failed.frames.empty());
  EXPECT_THAT(failed.frames[0], StartsWith("load_sample(int)"));
  EXPECT_FALSE(failed.stopped);
  EXPECT_FALSE(failed.collateral);
}

TEST(Failure, OfSomethingThatIsNoStandardExceptionSaysSo) {
  const auto failed = failure_of(caught([] { throw 42; }));  // NOLINT(bugprone-std-exception-baseclass)
  EXPECT_EQ(failed.kind, "unknown");
  EXPECT_THAT(failed.text, HasSubstr("not a std::exception"));
}

}  // namespace
}  // namespace paceline::train
