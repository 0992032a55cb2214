// On a GPU a model learns what it learns on the CPU, with one worker and with two that share the GPU over Gloo.
#include "tests/gpu/gpu_fixture.h"

namespace {

using paceline::Config;
using paceline::Json;
using paceline::testing::Gpu;

constexpr int64_t kGlobalBatch = 32;

// Row i is a function of i alone.
class Rows : public torch::data::Dataset<Rows> {
 public:
  torch::data::Example<> get(size_t index) override {
    auto generator = at::detail::createCPUGenerator(/*seed=*/index + 1);
    auto input = torch::randn({16}, generator);
    return {input, input.narrow(0, 0, 4) * 2 - 1};
  }
  torch::optional<size_t> size() const override { return 160; }
};

/// Two epochs; gives all weights.
Json train_rows(const Config&) {
  const auto context = paceline::get_context();
  torch::manual_seed(7);
  auto model = paceline::prepare_model(
      torch::nn::Sequential(torch::nn::Linear(16, 32), torch::nn::Tanh(), torch::nn::Linear(32, 4)));
  auto loader = paceline::prepare_data_loader(
      Rows().map(torch::data::transforms::Stack<>()),
      {.batch_size = kGlobalBatch / context.get_world_size(), .shuffle = true, .drop_last = true});
  paceline::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    for (auto& [inputs, targets] : loader) {
      if (inputs.device() != paceline::get_device()) throw std::runtime_error("the batch is elsewhere");
      auto loss = torch::mse_loss(model->forward(inputs), targets);
      optimizer.zero_grad();
      loss.backward();
      paceline::clip_grad_norm(model->parameters(), 1.0);
      optimizer.step();
    }
  }
  Json weights = Json::array();
  for (const auto& parameter : model->parameters()) {
    const torch::Tensor values = parameter.detach().cpu().flatten().to(torch::kDouble);
    for (int64_t i = 0; i < values.numel(); ++i) weights.push_back(values[i].item<double>());
  }
  return {{"device", paceline::get_device().str()}, {"weights", weights}};
}
PACELINE_TRAIN_LOOP(train_rows);

std::vector<double> weights_of(const paceline::Result& result) {
  return result.return_value.at("weights").get<std::vector<double>>();
}

void expect_same_weights(const paceline::Result& result, const paceline::Result& reference) {
  const std::vector<double> weights = weights_of(result), expected = weights_of(reference);
  ASSERT_EQ(weights.size(), expected.size());
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(weights[i], expected[i], 1e-4) << "weight " << i;
}

TEST_F(Gpu, OneWorkerLearnsWhatItLearnsOnTheCpu) {
  const auto on_gpu = paceline::TorchTrainer(train_rows, options(1)).fit();
  EXPECT_EQ(on_gpu.return_value.at("device"), "cuda:0");
  auto without_gpu = options(1);
  without_gpu.scaling_config.use_gpu = false;
  expect_same_weights(on_gpu, paceline::TorchTrainer(train_rows, without_gpu).fit());
}

TEST_F(Gpu, TwoWorkersThatShareItLearnWhatOneLearns) {
  const auto one = paceline::TorchTrainer(train_rows, options(1)).fit();
  const auto two = paceline::TorchTrainer(train_rows, options(2)).fit();
  EXPECT_EQ(two.return_value.at("device"), "cuda:0");
  expect_same_weights(two, one);
}

TEST_F(Gpu, NcclIsRefusedWhereWorkersShareOne) {
  auto with_nccl = options(2);
  with_nccl.torch_config.backend = "nccl";
  EXPECT_THROW(paceline::TorchTrainer(train_rows, with_nccl), paceline::ConfigError);
}

}  // namespace
