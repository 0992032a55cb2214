#include "paceline/train/nan_watch.h"

#include <gmock/gmock.h>

#include <limits>

namespace paceline::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two layers; the loss multiplies their output with `factor`.
class NanWatchTest : public ::testing::Test {
 protected:
  void watch(bool stop) {
    watch_ =
        std::make_shared<NanWatch>(NanWatchOptions{.stop = stop,
                                                   .rank = 1,
                                                   .step = [] { return 12; },
                                                   .say = [this](const std::string& line) { lines_.push_back(line); }});
    watch_->watch(*model_);
  }
  void train(double factor) {
    model_->zero_grad();
    (model_->forward(torch::ones({2, 4})).sum() * factor).backward();
  }

  torch::nn::Sequential model_ = torch::nn::Sequential(torch::nn::Linear(4, 3), torch::nn::Linear(3, 1));
  std::shared_ptr<NanWatch> watch_;
  std::vector<std::string> lines_;
};

TEST_F(NanWatchTest, IsSilentWhileAllIsFinite) {
  watch(false);
  train(1.0);
  watch_->check({{"loss", 0.5}, {"epoch", 3}});
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(NanWatchTest, NamesTheFirstGradientRankAndStep) {
  watch(false);
  train(std::numeric_limits<double>::quiet_NaN());
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_THAT(lines_[0], AllOf(HasSubstr("rank 1, step 12: the gradient of 1."), HasSubstr("NaN and 0 infinite of"),
                               HasSubstr("the loss is most likely")));
  train(1.0);
  EXPECT_EQ(lines_.size(), 1u);
}

TEST_F(NanWatchTest, TellsWhichGradientsCameBefore) {
  watch(false);
  {
    const torch::NoGradGuard no_grad;
    model_[1]->as<torch::nn::Linear>()->weight.fill_(std::numeric_limits<float>::infinity());
  }
  train(1.0);
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_THAT(lines_[0], AllOf(HasSubstr("the gradient of 0."), HasSubstr("which are finite")));
}

TEST_F(NanWatchTest, StopsTheTraining) {
  watch(true);
  EXPECT_THROW(train(std::numeric_limits<double>::infinity()), NonFiniteError);
  EXPECT_THROW(watch_->check({{"loss", std::numeric_limits<double>::quiet_NaN()}}), NonFiniteError);
  train(1.0);
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(NanWatchTest, DoesNotFillTheLog) {
  watch(false);
  for (int i = 0; i < 50; ++i) watch_->check({{"loss", std::numeric_limits<double>::infinity()}});
  ASSERT_EQ(lines_.size(), 10u);
  EXPECT_THAT(lines_.back(), HasSubstr("no more of these lines"));
}

TEST_F(NanWatchTest, EndsWithItsObject) {
  watch(true);
  watch_.reset();
  train(std::numeric_limits<double>::quiet_NaN());
}

}  // namespace
}  // namespace paceline::train
