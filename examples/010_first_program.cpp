// The program of README.md: ResNet-18 on the MNIST digits, with two workers.
#include <paceline/paceline.h>

#include "examples/help.h"  // not in the README
#include "examples/vision/mnist.h"
#include "examples/vision/resnet18.h"

void train_loop(const paceline::Config& config) {
  const auto context = paceline::get_context();
  const int64_t batch_size = config.get<int64_t>("global_batch_size") / context.get_world_size();

  auto model = paceline::prepare_model(ResNet18(/*num_classes=*/10));  // device, DDP
  auto loader = paceline::prepare_data_loader(Mnist(config.get<std::string>("data")),
                                              {.batch_size = batch_size, .shuffle = true, .drop_last = true});
  torch::optim::Adam optimizer(model->parameters(), 1e-3);

  for (int64_t epoch = 0; epoch < config.get<int64_t>("num_epochs"); ++epoch) {
    loader.set_epoch(epoch);
    torch::Tensor loss;
    for (auto& [images, labels] : paceline::progress(loader, "epoch " + std::to_string(epoch))) {
      loss = torch::nn::functional::cross_entropy(model->forward(images), labels);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    }
    paceline::report({{"loss", loss.item<double>()}, {"epoch", epoch}},
                     paceline::Checkpoint::save(model, optimizer));  // or Checkpoint::from_directory(...)
  }
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  explain_no_flags(argc, argv, "Trains ResNet-18 on the digits in ./data, twice 60,000.");  // not in the README
  paceline::init(argc, argv);  // inside a worker this runs the loop and does not return
  paceline::TorchTrainer trainer(
      train_loop, {.train_loop_config = {{"num_epochs", 2}, {"global_batch_size", 128}, {"data", "./data"}},
                   .scaling_config = {.num_workers = 2},
                   .run_config = {.name = "mnist-resnet18", .storage_path = "./results"}});
  paceline::Result result = trainer.fit();
  return result.exit_code();  // 0 when it has finished
}
