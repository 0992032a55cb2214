// `make quickstart`: trains ResNet-18 on the MNIST digits, tests it on digits that it has not seen, and draws a picture
// of what it reads. A program of your own would have everything here except the command line and the summary.
#include <paceline/paceline.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "examples/help.h"
#include "examples/vision/evaluate.h"
#include "examples/vision/mnist.h"
#include "examples/vision/picture.h"
#include "examples/vision/resnet18.h"

namespace {

namespace fs = std::filesystem;

constexpr int64_t kNumClasses = 10;
constexpr double kLearningRate = 1e-3;
constexpr int64_t kGlobalBatchSize = 512;  // every step averages 45 MB of gradients: large batches have fewer steps

struct Options {
  std::optional<int64_t> num_workers;
  bool use_gpu = false;
  bool full = false;
  bool json = false;
  std::string program;
  std::optional<std::string> name;
  std::string data = "data";
  std::string storage_path = "results";
  int64_t num_epochs = 2;
  int64_t train_digits = 25'088;  // of 60,000, twice: 50,176 images take less than two minutes on two slow cores
};

void train_loop(const paceline::Config& config) {
  const auto num_epochs = config.get<int64_t>("num_epochs");
  const auto data = config.get<std::string>("data");
  const int64_t batch_size = config.get<int64_t>("global_batch_size") / paceline::get_context().get_world_size();

  auto model = paceline::prepare_model(ResNet18(kNumClasses));
  auto loader = paceline::prepare_data_loader(Mnist(data, /*train=*/true, config.get<size_t>("train_digits")),
                                              {.batch_size = batch_size, .shuffle = true, .drop_last = true});
  auto test_loader =
      paceline::prepare_data_loader(Mnist(data, /*train=*/false), {.batch_size = 250, .evaluation = true});
  paceline::optim::Adam optimizer(model->parameters(), kLearningRate);
  paceline::optim::LRScheduler scheduler(optimizer, paceline::optim::linear(num_epochs * loader.size(), 1, 0),
                                         paceline::step_ledger());
  if (auto checkpoint = paceline::get_checkpoint()) checkpoint->load(model, optimizer, scheduler, loader);

  while (loader.epoch() < num_epochs) {
    const int64_t epoch = loader.epoch();
    torch::Tensor loss;
    for (auto& [images, labels] : paceline::progress(loader, "epoch " + std::to_string(epoch))) {
      loss = torch::nn::functional::cross_entropy(model->forward(images), labels);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      scheduler.step();
    }
    paceline::Metrics metrics = {{"epoch", epoch}, {"loss", loss.item<double>()}};
    if (epoch + 1 == num_epochs) metrics.set("accuracy", evaluate(model, test_loader).accuracy);
    paceline::report(metrics, paceline::Checkpoint::save(model, optimizer, scheduler, loader));
  }
}
PACELINE_TRAIN_LOOP(train_loop);

Options parse(int argc, char** argv) {
  Options options;
  options.program = argv[0];
  CLI::App app("Trains ResNet-18 on the MNIST digits.");
  app.formatter(std::make_shared<PlainHelp>());
  app.add_option("--num-workers", options.num_workers,
                 "worker processes; by default 2, with --use-gpu one for each GPU");
  app.add_flag("--use-gpu", options.use_gpu, "one GPU for each worker");
  app.add_flag("--full", options.full, "all 60,000 digits, five times");
  app.add_flag("--json", options.json, "end with one line of JSON");
  app.add_option("--name", options.name, "name of the run; the name of an unfinished run continues it");
  app.add_option("--data", options.data, "folder of the digits, which are fetched if missing")->capture_default_str();
  app.add_option("--storage-path", options.storage_path, "folder of the runs")->capture_default_str();
  app.add_option("--train-digits", options.train_digits, "digits to train on")
      ->check(CLI::Range(kGlobalBatchSize, int64_t{60'000}))
      ->capture_default_str();
  app.add_option("--num-epochs", options.num_epochs, "passes over the digits")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    explain(app, error);
  }
  if (options.full) {
    options.num_epochs = 5;
    options.train_digits = 60'000;
  }
  return options;
}

/// Draws nine test digits with what the model of `checkpoint` reads in them. Returns the picture's path.
std::string draw(const paceline::Checkpoint& checkpoint, Mnist& digits, const std::string& folder) {
  const torch::NoGradGuard no_gradients;
  ResNet18 model(kNumClasses);
  checkpoint.load(model);
  model->eval();
  const auto batch = digits.get_batch(std::vector<size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});
  const std::string path = fs::path(folder) / "predictions.png";
  draw_predictions(digits.pixels(), batch.target, model->forward(batch.data).argmax(1), path);
  return path;
}

int64_t workers_for(const Options& options) {
  const int64_t gpus = torch::cuda::device_count();  // NOLINT(bugprone-signed-char-misuse)
  return options.num_workers.value_or(options.use_gpu ? std::max<int64_t>(1, gpus) : 2);
}

/// What the run has come to. Members that it did not reach are null; paths are relative to where the program runs.
paceline::Json summarise(const paceline::Result& result, int64_t num_workers, double train_seconds) {
  paceline::Json summary = {{"state", result.state},          {"workers", num_workers}, {"accuracy", nullptr},
                            {"train_seconds", train_seconds}, {"checkpoint", nullptr},  {"picture", nullptr}};
  if (result.metrics.contains("accuracy")) summary["accuracy"] = result.metrics.get<double>("accuracy");
  if (result.checkpoint) summary["checkpoint"] = fs::relative(result.checkpoint->path()).string();
  return summary;
}

/// Trains, and says what has come of it. The program's exit code: 0 only for a run that has finished.
int run(const Options& options) {
  Mnist test_digits(options.data, /*train=*/false);
  const int64_t num_workers = workers_for(options);

  paceline::TorchTrainer trainer(train_loop,
                                 {.train_loop_config = {{"num_epochs", options.num_epochs},
                                                        {"train_digits", options.train_digits},
                                                        {"global_batch_size", kGlobalBatchSize},
                                                        {"data", options.data}},
                                  .scaling_config = {.num_workers = num_workers, .use_gpu = options.use_gpu},
                                  .run_config = {.name = options.name, .storage_path = options.storage_path}});
  const auto start = std::chrono::steady_clock::now();
  std::optional<paceline::Result> result;
  std::string error;
  try {
    result = trainer.fit();
  } catch (const paceline::TrainingFailedError& failure) {
    result = failure.result();
    error = failure.what();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;

  paceline::Json summary = summarise(*result, num_workers, seconds.count());
  const bool finished = result->state == "finished";
  if (finished && result->checkpoint) {
    const std::string picture = fs::relative(draw(*result->checkpoint, test_digits, result->path));
    summary["picture"] = picture;
    std::cout << "read " << 100 * result->metrics.get<double>("accuracy")
              << " % of 10,000 unseen digits correctly after " << std::lround(seconds.count()) << " s\n"
              << "checkpoint " << summary["checkpoint"].get<std::string>() << "\n"
              << "picture    " << picture << "\n";
  } else if (!error.empty()) {
    std::cerr << error << "\n";
  } else if (!finished) {
    std::cerr << "the run is " << result->state << "; what it has published stays. To go on with it:\n  "
              << options.program << " --name " << fs::path(result->path).filename().string()
              << "   (and the flags of this time)\n";
  }
  if (options.json) std::cout << summary.dump() << std::endl;
  return result->exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    paceline::init(argc, argv);
    return run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "020_mnist_resnet18: " << error.what() << "\n";
    return 1;
  }
}
