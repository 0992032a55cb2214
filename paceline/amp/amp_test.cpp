#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "paceline/amp/autocast.h"
#include "paceline/amp/clip.h"
#include "paceline/amp/grad_scaler.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

using torch::Tensor;

TEST(Autocast, HoldsForItsScopeAndNests) {
  const Tensor a = torch::randn({4, 4});
  const auto type = [&a] { return torch::mm(a, a).scalar_type(); };
  EXPECT_EQ(type(), torch::kFloat);
  {
    const auto scope = autocast(torch::kCPU);
    EXPECT_EQ(type(), torch::kBFloat16);
    {
      const auto inner = autocast(torch::kCPU, torch::kHalf);
      EXPECT_EQ(type(), torch::kHalf);
      const auto off = autocast(torch::kCPU, std::nullopt, /*enabled=*/false);
      EXPECT_EQ(type(), torch::kFloat);
    }
    EXPECT_EQ(type(), torch::kBFloat16);
  }
  EXPECT_EQ(type(), torch::kFloat);
}

TEST(Autocast, SeesWeightsThatChangedBetweenScopes) {
  torch::nn::Linear layer(4, 4);
  const Tensor x = torch::ones({1, 4});
  const auto forward = [&] {
    const auto scope = autocast(torch::kCPU);
    return layer->forward(x).to(torch::kFloat);
  };
  forward().sum().backward();
  {
    const torch::NoGradGuard no_grad;
    layer->weight.fill_(2);
    layer->bias.zero_();
  }
  EXPECT_EQ(forward()[0][0].item<float>(), 8) << "a cast weight stayed in the cache";
}

/// One parameter with gradient scale · `gradient`, stepped by plain SGD of learning rate 1.
struct Scaled {
  Tensor parameter = torch::zeros({2}).requires_grad_();
  torch::optim::SGD optimizer{{parameter}, torch::optim::SGDOptions(1.0)};

  bool step(GradScaler& scaler, float gradient) {
    optimizer.zero_grad();
    scaler.scale((parameter * gradient).sum()).backward();
    const bool taken = scaler.step(optimizer);
    scaler.update();
    return taken;
  }
};

TEST(GradScaler, GrowsShrinksAndLeavesOutBadSteps) {
  Scaled scaled;
  GradScaler scaler({.init_scale = 8, .growth_interval = 2});
  EXPECT_EQ(scaler.get_scale(), 8);
  EXPECT_TRUE(scaled.step(scaler, 1));
  EXPECT_EQ(scaled.parameter[0].item<float>(), -1) << "gradients are unscaled";
  EXPECT_FALSE(scaled.step(scaler, std::numeric_limits<float>::infinity()));
  EXPECT_EQ(scaled.parameter[0].item<float>(), -1);
  EXPECT_EQ(scaler.get_scale(), 4);
  EXPECT_TRUE(scaled.step(scaler, 1));
  EXPECT_EQ(scaler.get_scale(), 4) << "good steps are counted anew";
  EXPECT_TRUE(scaled.step(scaler, 1));
  EXPECT_EQ(scaler.get_scale(), 8);
  scaled.optimizer.zero_grad();
  scaler.scale(scaled.parameter.sum()).backward();
  scaler.update(64);
  EXPECT_EQ(scaler.get_scale(), 64);
}

TEST(GradScaler, UnscalesBeforeClipping) {
  Scaled scaled;
  GradScaler scaler({.init_scale = 1024});
  scaler.scale((scaled.parameter * 3).sum()).backward();
  scaler.unscale_(scaled.optimizer);
  EXPECT_EQ(scaled.parameter.grad()[0].item<float>(), 3);
  EXPECT_THROW(scaler.unscale_(scaled.optimizer), UsageError);
  EXPECT_TRUE(scaler.step(scaled.optimizer));
  EXPECT_THROW(scaler.step(scaled.optimizer), UsageError);
  scaler.update();
  EXPECT_EQ(scaled.parameter[0].item<float>(), -3);
}

TEST(GradScaler, TakesWhatPointsToAnOptimizer) {
  Scaled scaled;
  const auto pointer =
      std::make_shared<torch::optim::SGD>(std::vector<Tensor>{scaled.parameter}, torch::optim::SGDOptions(1.0));
  GradScaler scaler({.init_scale = 1024});
  scaler.scale((scaled.parameter * 3).sum()).backward();
  scaler.unscale_(pointer);
  EXPECT_TRUE(scaler.step(pointer));
  EXPECT_THROW(scaler.step(*pointer), UsageError) << "the same optimizer";
  scaler.update();
  EXPECT_EQ(scaled.parameter[0].item<float>(), -3);
  EXPECT_THROW(scaler.step(std::unique_ptr<torch::optim::Optimizer>()), UsageError);
}

TEST(GradScaler, AVoidStepLeavesTheScale) {
  Scaled scaled;
  GradScaler scaler({.init_scale = 8, .growth_interval = 1});
  scaler.scale(scaled.parameter.sum());
  EXPECT_FALSE(scaler.step(scaled.optimizer));
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 8);
}

TEST(GradScaler, GoesOnFromItsState) {
  Scaled scaled;
  GradScaler scaler({.init_scale = 8, .growth_interval = 3});
  scaled.step(scaler, 1);
  scaled.step(scaler, 1);
  GradScaler resumed;
  resumed.load_state_dict(scaler.state_dict());
  scaled.step(resumed, 1);
  EXPECT_EQ(resumed.get_scale(), 16);
  EXPECT_THROW(resumed.load_state_dict({}), ConfigError);
}

TEST(GradScaler, DoesNothingWhenOff) {
  Scaled scaled;
  GradScaler scaler({.enabled = false});
  EXPECT_TRUE(scaled.step(scaler, 1));
  EXPECT_EQ(scaled.parameter[0].item<float>(), -1);
  EXPECT_EQ(scaler.get_scale(), 1);
}

TEST(GradScaler, RefusesWhatDoesNotFit) {
  EXPECT_THROW(GradScaler({.growth_factor = 1}), ConfigError);
  EXPECT_THROW(GradScaler({.backoff_factor = 1}), ConfigError);
  Tensor half = torch::zeros({2}, torch::kHalf).requires_grad_();
  half.mutable_grad() = torch::ones({2}, torch::kHalf);
  torch::optim::SGD optimizer({half}, torch::optim::SGDOptions(1.0));
  GradScaler scaler;
  scaler.scale(torch::ones({}));
  EXPECT_THROW(scaler.unscale_(optimizer), UsageError);
  EXPECT_THROW(scaler.update(0), UsageError);
}

std::vector<Tensor> with_gradients() {
  torch::manual_seed(2);
  std::vector<Tensor> parameters;
  for (const int64_t size : {3, 50, 1000}) {
    parameters.push_back(torch::zeros({size}).requires_grad_());
    parameters.back().mutable_grad() = torch::randn({size});
  }
  parameters.push_back(torch::zeros({2}).requires_grad_());  // without a gradient
  return parameters;
}

TEST(ClipGradNorm, EqualsTorchs) {
  for (const double norm_type : {1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()}) {
    for (const double max_norm : {0.5, 1e6}) {
      auto ours = with_gradients();
      auto theirs = with_gradients();
      const double norm = clip_grad_norm(ours, max_norm, norm_type).item<double>();
      EXPECT_NEAR(norm, torch::nn::utils::clip_grad_norm_(theirs, max_norm, norm_type), 1e-5 * norm);
      for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(torch::allclose(ours[i].grad(), theirs[i].grad(), 1e-6, 1e-8));
    }
  }
}

TEST(ClipGradNorm, ComputesGradientsOfFewBitsInFloat32) {
  for (const auto type : {torch::kBFloat16, torch::kHalf}) {
    std::vector<Tensor> parameters;
    for (const auto each : {type, torch::kFloat}) {
      parameters.push_back(torch::zeros({1000}, each).requires_grad_());
      parameters.back().mutable_grad() = torch::full({1000}, 1.001, each);
    }
    const Tensor norm = clip_grad_norm(parameters, 1e9);
    EXPECT_EQ(norm.scalar_type(), torch::kFloat);
    const double few_bits = parameters[0].grad()[0].item<double>(), float32 = parameters[1].grad()[0].item<double>();
    EXPECT_NEAR(norm.item<double>(), std::sqrt(1000 * (few_bits * few_bits + float32 * float32)), 1e-3);
    parameters[0].mutable_grad().fill_(300);  // its square is more than float16 holds
    EXPECT_NEAR(clip_grad_norm({parameters[0]}, 1).item<double>(), 300 * std::sqrt(1000.0), 1);
    EXPECT_NEAR(clip_grad_norm({parameters[0]}, 1e9).item<double>(), 1, 1e-2);
  }
}

TEST(ClipGradNorm, TakesSparseGradients) {
  torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(10, 3).sparse(true));
  embedding->forward(torch::tensor({1, 1, 4})).sum().backward();
  const Tensor dense = embedding->weight.grad().to_dense();
  EXPECT_FLOAT_EQ(clip_grad_norm(embedding->parameters(), 0.5).item<float>(), dense.norm().item<float>());
  EXPECT_TRUE(torch::allclose(embedding->weight.grad().to_dense(), dense * (0.5 / dense.norm())));
}

TEST(ClipGradNorm, TellsOfANormThatIsNotFinite) {
  auto parameters = with_gradients();
  parameters[0].mutable_grad()[0] = std::numeric_limits<float>::infinity();
  EXPECT_THROW(clip_grad_norm(parameters, 1, 2, /*error_if_nonfinite=*/true), Error);
  EXPECT_EQ(clip_grad_norm({}, 1).item<float>(), 0);
}

TEST(ClipGradNorm, RefusesANegativeNorm) {
  EXPECT_THROW(clip_grad_norm(with_gradients(), -1), ConfigError);
  EXPECT_THROW(clip_grad_norm(with_gradients(), std::nan("")), ConfigError);
  const auto parameters = with_gradients();
  clip_grad_norm(parameters, 0);
  EXPECT_EQ(parameters[0].grad().abs().max().item<float>(), 0);
}

}  // namespace
}  // namespace paceline
