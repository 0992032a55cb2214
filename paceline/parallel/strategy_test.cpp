#include "paceline/parallel/strategy.h"

#include <cmath>
#include <limits>

#include "paceline/amp/grad_scaler.h"
#include "paceline/testing/strategy_conformance.h"

namespace paceline::testing {
namespace {

using parallel::ParallelModel;
using ::testing::AllOf;
using ::testing::HasSubstr;

PrepareModelOptions many_buckets(bool gradient_as_bucket_view) {
  return {.ddp = {.bucket_cap_mb = 0.0001, .gradient_as_bucket_view = gradient_as_bucket_view}};
}

INSTANTIATE_TEST_SUITE_P(Ddp, StrategyConformance,
                         ::testing::Values(PrepareModelOptions{}, many_buckets(false), many_buckets(true)));

TEST(Strategy, AWrongNameListsTheAllowedOnes) {
  PrepareModelOptions options;
  options.parallel_strategy = "zero9";
  const auto wanted = AllOf(HasSubstr("\"zero9\""), HasSubstr("\"ddp\""), HasSubstr("\"none\""));
  EXPECT_THAT(message_of<ConfigError>([&] { options.validate(); }), wanted);
  EXPECT_THAT(message_of<ConfigError>([] { parallel::find_strategy("zero9"); }), wanted);
}

TEST(Strategy, AParameterKnowsItsModelAsLongAsThatTrains) {
  torch::nn::Linear linear(2, 2), other(2, 2);
  auto trained = parallel::find_strategy("none").attach(linear.ptr(), comm::Group::in_process(1)[0], {}, nullptr);
  EXPECT_EQ(ParallelModel::of(linear->weight), trained.get());
  EXPECT_EQ(ParallelModel::of(other->weight), nullptr);
  trained.reset();
  EXPECT_EQ(ParallelModel::of(linear->weight), nullptr);
}

// A strategy that spreads gradients: rank r trains the parameters of its own half only.
class HalfOfTheModel final : public ParallelModel {
 public:
  using ParallelModel::ParallelModel;

  void void_step() override {}
  torch::Tensor norm_over_ranks(const torch::Tensor& norm, double norm_type) override {
    torch::Tensor value = std::isinf(norm_type) ? norm.clone() : norm.pow(norm_type);
    group_->all_reduce(value, std::isinf(norm_type) ? comm::ReduceOp::max : comm::ReduceOp::sum);
    return std::isinf(norm_type) ? value : value.pow(1 / norm_type);
  }
  void check_ranks_every(int64_t) override {}
  void rebuild(std::shared_ptr<comm::Group> group) override { group_ = std::move(group); }
  Placement placement() const override { return Placement::per_rank; }
  StateDict state_dict() const override { return {}; }
  void load_state_dict(const StateDict&) override {}

 private:
  void enter_no_sync() override {}
  void leave_no_sync() override {}
};

TEST(Strategy, ClippingUsesTheNormOfAllParts) {
  for (const double norm_type : {1.0, 2.0, std::numeric_limits<double>::infinity()}) {
    run_ranks(comm::Group::in_process(2), [&](const std::shared_ptr<comm::Group>& group) {
      torch::nn::Linear half(torch::nn::LinearOptions(1, 1).bias(false));
      const HalfOfTheModel trained(half.ptr(), group);
      half->weight.mutable_grad() = torch::full({1, 1}, group->rank() == 0 ? 3.0 : 4.0);
      const double wanted = torch::linalg_vector_norm(torch::tensor({3.0, 4.0}), norm_type).item<double>();
      EXPECT_NEAR(clip_grad_norm(half->parameters(), 1.0, norm_type).item<double>(), wanted, 1e-5);
      EXPECT_NEAR(half->weight.grad().item<double>(), (group->rank() == 0 ? 3.0 : 4.0) / wanted, 1e-5);
    });
  }
}

TEST(Strategy, AnOverflowInOnePartStopsTheStepOfAll) {
  run_ranks(comm::Group::in_process(2), [&](const std::shared_ptr<comm::Group>& group) {
    torch::nn::Linear half(torch::nn::LinearOptions(1, 1).bias(false));
    const HalfOfTheModel trained(half.ptr(), group);
    torch::optim::SGD optimizer(half->parameters(), 0.1);
    GradScaler scaler;
    scaler.scale(torch::ones({}));
    half->weight.mutable_grad() =
        torch::full({1, 1}, group->rank() == 0 ? 1.0 : std::numeric_limits<double>::infinity());
    EXPECT_FALSE(scaler.step(optimizer));
  });
}

}  // namespace
}  // namespace paceline::testing
