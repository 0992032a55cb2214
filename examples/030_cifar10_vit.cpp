// Trains a VisionTransformer on the photographs of CIFAR-10 and tests it after each epoch.
//
// This program shows three things beyond the quickstart: metrics of a whole epoch; a batch that is trained in parts,
// because its forward would not fit into memory; and the same training with one worker and with many. The global batch
// is the same for any number of workers, the loaders of all ranks together give the photographs that one loader would
// give, and the weights start from the same seed. So the curves differ only by the order in which numbers are added.
#include <paceline/paceline.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "examples/help.h"
#include "examples/vision/cifar10.h"
#include "examples/vision/evaluate.h"
#include "examples/vision/vision_transformer.h"

namespace {

constexpr double kLearningRate = 1e-3;
constexpr double kWeightDecay = 1e-2;

struct Options {
  int64_t num_workers = 1;
  int64_t epochs = 1;
  bool use_gpu = false;
  int64_t batch_size = 512;
  std::optional<int64_t> part_size;
  int64_t train_images = 50'000;
  int64_t test_images = 10'000;
  std::optional<std::string> name;
  std::string data = "data";
  std::string storage_path = "results";
};

/// Adds the gradients of a batch's mean loss, computed in parts of `part_size` photographs. Returns that loss.
double backward_in_parts(VisionTransformer& model, const torch::Tensor& images, const torch::Tensor& labels,
                         int64_t part_size) {
  const auto image_parts = images.split(part_size);
  const auto label_parts = labels.split(part_size);
  double batch_loss = 0;
  for (size_t i = 0; i < image_parts.size(); ++i) {
    // The ranks average their gradients once a batch: in the backward of the last part.
    std::optional<paceline::parallel::NoSync> no_sync;
    if (i + 1 < image_parts.size()) no_sync.emplace(paceline::no_sync(model));
    const torch::Tensor logits = model->forward(image_parts[i]);
    const torch::Tensor loss = torch::cross_entropy_loss(logits, label_parts[i], {}, at::Reduction::Sum);
    (loss / labels.size(0)).backward();
    batch_loss += loss.item<double>() / static_cast<double>(labels.size(0));
  }
  return batch_loss;
}

void train_loop(const paceline::Config& config) {
  const auto epochs = config.get<int64_t>("epochs");
  const auto part_size = config.get<int64_t>("part_size");
  const auto data = config.get<std::string>("data");
  const int64_t batch_size = config.get<int64_t>("batch_size") / paceline::get_context().get_world_size();

  torch::manual_seed(0);
  auto model = paceline::prepare_model(VisionTransformer());
  auto loader = paceline::prepare_data_loader(Cifar10(data, /*train=*/true, config.get<size_t>("train_images")),
                                              {.batch_size = batch_size, .shuffle = true});
  auto test_loader = paceline::prepare_data_loader(Cifar10(data, /*train=*/false, config.get<size_t>("test_images")),
                                                   {.batch_size = part_size, .evaluation = true});
  paceline::optim::AdamW optimizer(model->parameters(),
                                   paceline::optim::AdamWOptions(kLearningRate).weight_decay(kWeightDecay));
  if (auto checkpoint = paceline::get_checkpoint()) checkpoint->load(model, optimizer, loader);

  while (loader.epoch() < epochs) {
    const int64_t epoch = loader.epoch();
    double loss_sum = 0;
    for (auto& [images, labels] : paceline::progress(loader, "epoch " + std::to_string(epoch))) {
      optimizer.zero_grad();
      loss_sum += backward_in_parts(model, images, labels, part_size);
      optimizer.step();
    }
    const Evaluation test = evaluate(model, test_loader);
    paceline::report({{"epoch", epoch},
                      {"train_loss", loss_sum / static_cast<double>(loader.size())},
                      {"test_loss", test.loss},
                      {"accuracy", test.accuracy}},
                     paceline::Checkpoint::save(model, optimizer, loader), {.reduce = "mean"});
  }
}
PACELINE_TRAIN_LOOP(train_loop);

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a VisionTransformer on the photographs of CIFAR-10.");
  app.formatter(std::make_shared<PlainHelp>());
  app.add_option("--num-workers", options.num_workers, "worker processes")
      ->check(CLI::Range(int64_t{1}, int64_t{512}))
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "passes over the photographs")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}))
      ->capture_default_str();
  app.add_flag("--use-gpu", options.use_gpu, "one GPU for each worker");
  app.add_option("--batch-size", options.batch_size, "photographs in each step, of all workers together")
      ->check(CLI::Range(int64_t{1}, int64_t{50'000}))
      ->capture_default_str();
  app.add_option("--part-size", options.part_size,
                 "photographs that a worker processes at once; more take more memory. By default 64 on the CPU, and on "
                 "a GPU the worker's whole share")
      ->check(CLI::Range(int64_t{1}, int64_t{50'000}));
  app.add_option("--train-images", options.train_images, "photographs to train on")
      ->check(CLI::Range(int64_t{1}, int64_t{50'000}))
      ->capture_default_str();
  app.add_option("--test-images", options.test_images, "photographs to test with")
      ->check(CLI::Range(int64_t{1}, int64_t{10'000}))
      ->capture_default_str();
  app.add_option("--name", options.name, "name of the run; the name of an unfinished run continues it");
  app.add_option("--data", options.data, "folder of the photographs, which are fetched if missing")
      ->capture_default_str();
  app.add_option("--storage-path", options.storage_path, "folder of the runs")->capture_default_str();
  try {
    app.parse(argc, argv);
    if (options.batch_size % options.num_workers != 0) {
      throw CLI::ValidationError("--num-workers", "a batch of " + std::to_string(options.batch_size) +
                                                      " photographs cannot be shared out to " +
                                                      std::to_string(options.num_workers) + " workers equally");
    }
  } catch (const CLI::ParseError& error) {
    explain(app, error);
  }
  return options;
}

/// The program's exit code: 0 only for a run that has finished.
int run(const Options& options) {
  [[maybe_unused]] const Cifar10 fetched(options.data, /*train=*/true, /*limit=*/1);  // while the terminal shows it

  const int64_t share = options.batch_size / options.num_workers;
  paceline::TorchTrainer trainer(
      train_loop, {.train_loop_config = {{"epochs", options.epochs},
                                         {"batch_size", options.batch_size},
                                         {"part_size", options.part_size.value_or(options.use_gpu ? share : 64)},
                                         {"train_images", options.train_images},
                                         {"test_images", options.test_images},
                                         {"data", options.data}},
                   .scaling_config = {.num_workers = options.num_workers, .use_gpu = options.use_gpu},
                   .run_config = {.name = options.name, .storage_path = options.storage_path}});
  const auto start = std::chrono::steady_clock::now();
  const paceline::Result result = trainer.fit();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (result.state != "finished") {
    std::cerr << "the run is " << result.state << "; with the same --name it goes on\n";
    return result.exit_code();
  }
  std::cout << "named " << 100 * result.metrics.get<double>("accuracy") << " % of " << options.test_images
            << " unseen photographs rightly after " << std::lround(seconds.count()) << " s\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    paceline::init(argc, argv);
    return run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "030_cifar10_vit: " << error.what() << "\n";
    return 1;
  }
}
