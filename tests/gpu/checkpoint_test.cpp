// What was trained on a GPU is saved as it was at that moment, and goes on there or on the CPU.
#include "tests/gpu/gpu_fixture.h"

namespace {

using paceline::Checkpoint;
using paceline::Config;
using paceline::Json;
using paceline::testing::Gpu;

torch::nn::Linear make_layer() {
  return torch::nn::Linear(512, 512);
}

double sum_of(const torch::Tensor& tensor) {
  return tensor.detach().to(torch::kDouble).sum().item<double>();
}

/// Saves after one step, or says what it has loaded.
Json save_on_gpu(const Config& config) {
  auto model = paceline::prepare_model(make_layer());
  paceline::optim::AdamW optimizer(model->parameters(), 1e-2);
  paceline::RandomState random;
  const auto average = [&] {
    const auto& state = *optimizer.state().at(model->weight.unsafeGetTensorImpl());
    return static_cast<const torch::optim::AdamWParamState&>(state).exp_avg();
  };
  if (const auto checkpoint = paceline::get_checkpoint()) {
    checkpoint->load(model, optimizer, random);
    const torch::Tensor drawn = torch::rand({4}, paceline::get_device());
    return {{"weight", sum_of(model->weight)},
            {"average", sum_of(average())},
            {"drawn", sum_of(drawn)},
            {"device", average().device().str()}};
  }
  model->forward(torch::randn({8, 512}, paceline::get_device())).square().mean().backward();
  optimizer.step();
  auto checkpoint = config.get<bool>("async") ? Checkpoint::async_save(model, optimizer, random)
                                              : Checkpoint::save(model, optimizer, random);
  const torch::Tensor drawn = torch::rand({4}, paceline::get_device());
  const Json saved = {{"weight", sum_of(model->weight)},
                      {"average", sum_of(average())},
                      {"drawn", sum_of(drawn)},
                      {"device", paceline::get_device().str()}};
  {
    const torch::NoGradGuard no_grad;  // training goes on while the files are written
    model->weight.fill_(7);
    average().fill_(7);
  }
  paceline::report({{"step", 1}}, checkpoint);
  return saved;
}
PACELINE_TRAIN_LOOP(save_on_gpu);

TEST_F(Gpu, CheckpointsGoOnThereAndOnTheCpu) {
  for (const bool async : {false, true}) {
    SCOPED_TRACE(async ? "async_save()" : "save()");
    const auto trained = paceline::TorchTrainer(save_on_gpu, options(1, {{"async", async}})).fit();
    ASSERT_TRUE(trained.checkpoint);
    auto on_cpu = make_layer();
    trained.checkpoint->load(on_cpu);
    EXPECT_TRUE(on_cpu->weight.is_cpu());
    EXPECT_NEAR(sum_of(on_cpu->weight), trained.return_value.at("weight").get<double>(), 1e-9);
    auto on_gpu = make_layer();
    on_gpu->to(device_);
    trained.checkpoint->load(on_gpu);
    EXPECT_EQ(on_gpu->weight.device(), device_);
    EXPECT_TRUE(torch::equal(on_gpu->weight.cpu(), on_cpu->weight));

    auto going_on = options(1, {{"async", async}});
    going_on.resume_from_checkpoint = trained.checkpoint;
    const Json loaded = paceline::TorchTrainer(save_on_gpu, going_on).fit().return_value;
    EXPECT_EQ(loaded, trained.return_value);
  }
}

}  // namespace
