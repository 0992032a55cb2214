// Finds the line behind noisy points with two workers, and leaves a run in ./results/line.
#include <paceline/paceline.h>

#include <iostream>

void train_loop(const paceline::Config& config) {
  torch::manual_seed(1 + paceline::get_context().get_world_rank());
  const auto xs = torch::rand({256, 1});
  const auto ys = 3 * xs - 1 + 0.01 * torch::randn({256, 1});

  auto model = paceline::prepare_model(torch::nn::Linear(1, 1));
  paceline::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.5));
  for (int64_t epoch = 0; epoch < config.get<int64_t>("num_epochs"); ++epoch) {
    torch::Tensor loss;
    for (int step = 0; step < 50; ++step) {
      loss = torch::mse_loss(model->forward(xs), ys);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    }
    paceline::report({{"loss", loss.item<double>()}}, paceline::Checkpoint::save(model), {.reduce = "mean"});
  }
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) try {
  if (argc > 1) {
    std::cerr << "usage: train   (no flags: what it does is written in its main())\n";
    return 2;
  }
  paceline::init(argc, argv);
  paceline::TorchTrainer trainer(train_loop, {.train_loop_config = {{"num_epochs", 4}},
                                              .scaling_config = {.num_workers = 2},
                                              .run_config = {.name = "line", .storage_path = "./results"}});
  const paceline::Result result = trainer.fit();
  torch::nn::Linear model(1, 1);
  result.checkpoint.value().load(model);
  std::cout << "y = " << model->weight.item<float>() << " x + " << model->bias.item<float>() << std::endl;
} catch (const paceline::Error& error) {
  std::cerr << error.what() << std::endl;
  return 1;
}
