// float16 with a gradient scaler on two workers: a step that overflows on one rank is left out on both.
#include "tests/gpu/gpu_fixture.h"

namespace {

using paceline::Config;
using paceline::Json;
using paceline::testing::Gpu;

/// Three steps, of which the second overflows on rank 1. Gives for each rank and step: taken, scale, weight.
Json train_scaled(const Config&) {
  const auto device = paceline::get_device();
  const bool overflows = paceline::get_context().get_world_rank() == 1;
  auto model = paceline::prepare_model(torch::nn::Linear(torch::nn::LinearOptions(4, 1).bias(false)));
  {
    const torch::NoGradGuard no_grad;
    model->weight.fill_(0.5);
  }
  paceline::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
  paceline::GradScaler scaler({.init_scale = 1024});
  std::vector<torch::Tensor> steps;
  for (int step = 0; step < 3; ++step) {
    torch::Tensor inputs = torch::ones({8, 4}, device), outputs;
    if (step == 1 && overflows) inputs[0][0] = 1e5;  // more than float16 can hold
    {
      const auto scope = paceline::autocast(device);
      outputs = model->forward(inputs);
    }
    if (outputs.scalar_type() != torch::kHalf) throw std::runtime_error("autocast did not compute in float16");
    optimizer.zero_grad();
    scaler.scale(outputs.to(torch::kFloat).square().mean()).backward();
    const bool taken = scaler.step(optimizer);
    scaler.update();
    const auto weight = model->weight.detach().flatten()[0].item<double>();
    steps.push_back(torch::tensor({taken ? 1.0 : 0.0, scaler.get_scale(), weight}, torch::kDouble));
  }
  Json ranks = Json::array();
  for (const torch::Tensor& rank : paceline::all_gather(torch::stack(steps).flatten())) {
    ranks.push_back(std::vector<double>(rank.const_data_ptr<double>(), rank.const_data_ptr<double>() + rank.numel()));
  }
  return ranks;
}
PACELINE_TRAIN_LOOP(train_scaled);

TEST_F(Gpu, AStepThatOverflowsOnOneRankIsLeftOutOnAll) {
  const Json ranks = paceline::TorchTrainer(train_scaled, options(2)).fit().return_value;
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[0], ranks[1]);
  const auto values = ranks[0].get<std::vector<double>>();
  const auto of_step = [&](size_t step, size_t value) { return values.at(3 * step + value); };
  for (size_t step = 0; step < 3; ++step) {
    EXPECT_EQ(of_step(step, 0), step == 1 ? 0 : 1) << "step " << step;
    EXPECT_EQ(of_step(step, 1), step == 0 ? 1024 : 512) << "step " << step;
  }
  EXPECT_LT(of_step(0, 2), 0.5);
  EXPECT_EQ(of_step(1, 2), of_step(0, 2));
  EXPECT_LT(of_step(2, 2), of_step(1, 2));
}

}  // namespace
