#include "paceline/comm/reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "paceline/core/error.h"
#include "paceline/testing/ranks.h"

namespace paceline::comm {
namespace {

// One backward of two parameters of which this rank's gradients are `value`; gives the averaged ones.
std::vector<torch::Tensor> averaged(const std::shared_ptr<Group>& group, double value, const ReducerOptions& options) {
  std::vector<torch::Tensor> parameters = {torch::zeros({100}, torch::requires_grad()),
                                           torch::zeros({3, 4}, torch::requires_grad())};
  auto reducer = GradientReducer::create(group, parameters, {"a", "b"}, {false, false}, options);
  reducer->begin_backward();
  ((parameters[0].sum() + parameters[1].sum()) * value).backward();
  return {parameters[0].grad().clone(), parameters[1].grad().clone()};
}

TEST(GradientReducer, AveragesWhatRanksComputed) {
  testing::run_ranks(Group::in_process(3), [](const std::shared_ptr<Group>& group) {
    for (const bool view : {false, true}) {
      ReducerOptions options;
      options.gradient_as_bucket_view = view;
      for (const auto& gradient : averaged(group, group->rank() + 1.0, options)) {
        EXPECT_TRUE(torch::allclose(gradient, torch::full_like(gradient, 2.0))) << gradient;
      }
    }
  });
}

TEST(GradientReducer, SaysWhetherABackwardIsAveraged) {
  testing::run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    const torch::Tensor a = torch::zeros({2}, torch::requires_grad()), b = torch::zeros({2}, torch::requires_grad());
    const auto reducer = GradientReducer::create(group, {a, b}, {"a", "b"}, {false, false}, {});
    reducer->begin_backward();
    a.sum().backward();
    EXPECT_FALSE(reducer->is_finished());
    reducer->forget_broken();
    reducer->wait_for_broken();
    reducer->begin_backward();
    (a.sum() + b.sum()).backward();
    EXPECT_TRUE(reducer->is_finished());
  });
}

TEST(GradientReducer, CompressesWithinTheFormatsPrecision) {
  testing::run_ranks(Group::in_process(2), [](const std::shared_ptr<Group>& group) {
    const double value = group->rank() == 0 ? 1.003 : 2.009;
    for (const auto& [compression, precision] :
         {std::pair{Compression::bf16, 1.0 / 128}, std::pair{Compression::fp16, 1.0 / 1024}}) {
      ReducerOptions options;
      options.compression = compression;
      for (const auto& gradient : averaged(group, value, options)) {
        EXPECT_TRUE(torch::allclose(gradient, torch::full_like(gradient, 1.506), precision, 0)) << gradient;
        EXPECT_FALSE(torch::allclose(gradient, torch::full_like(gradient, 1.506), 1e-6, 0)) << "not compressed";
      }
    }
  });
}

TEST(GradientReducer, AnAbortEndsABackwardThatWaitsForOtherRanks) {
  auto groups = Group::in_process(2);
  auto waiting = std::async(
      std::launch::async, [&] { return testing::message_of<CollectiveError>([&] { averaged(groups[0], 1.0, {}); }); });
  groups[0]->abort();
  EXPECT_THAT(waiting.get(), ::testing::AllOf(::testing::HasSubstr("all_reduce failed on rank 0 of 2"),
                                              ::testing::HasSubstr("told to stop")));
}

}  // namespace
}  // namespace paceline::comm
