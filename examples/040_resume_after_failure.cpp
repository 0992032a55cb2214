// Trains twice: once undisturbed, and once with a worker that is killed in the middle of an epoch. Then it prints both
// curves, which are equal to the last digit: after the failure the workers restart from the latest checkpoint, and
// repeat the steps since then with the same data.
//
// Three things in the train loop achieve this. It reports checkpoints. It loads the latest one at its top. And it saves
// the loader in them, so that an epoch continues with exactly the batches that remain. The only other thing to set is
// how often the run may fail: FailureConfig::max_failures.
#include <paceline/paceline.h>
#include <CLI/CLI.hpp>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "examples/help.h"

namespace {

constexpr int64_t kReportEvery = 10;  // steps; an epoch has 16

/// A dataset needs no files: here it is the sine, from -π to π.
struct Sine {
  torch::data::Example<> get_batch(const std::vector<size_t>& rows) {
    const std::vector<float> numbers(rows.begin(), rows.end());
    const torch::Tensor x = torch::tensor(numbers).view({-1, 1}) * (2.0 / static_cast<double>(size())) - 1;
    return {x, torch::sin(x * std::numbers::pi)};
  }
  size_t size() const { return 1024; }
};

void train_loop(const paceline::Config& config) {
  const auto num_epochs = config.get<int64_t>("num_epochs");
  const auto kill_at_step = config.get<int64_t>("kill_at_step");
  const auto context = paceline::get_context();

  torch::manual_seed(0);
  auto model = paceline::prepare_model(torch::nn::Sequential(torch::nn::Linear(1, 64), torch::nn::Tanh(),
                                                             torch::nn::Linear(64, 64), torch::nn::Tanh(),
                                                             torch::nn::Linear(64, 1)));
  auto loader = paceline::prepare_data_loader(Sine(), {.batch_size = 64 / context.get_world_size(), .shuffle = true});
  paceline::optim::Adam optimizer(model->parameters(), 1e-2);
  if (auto checkpoint = paceline::get_checkpoint()) checkpoint->load(model, optimizer, loader);

  while (loader.epoch() < num_epochs) {
    for (auto& [x, wanted] : loader) {
      const torch::Tensor loss = torch::mse_loss(model->forward(x), wanted);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();

      // The step of the batch in hand, from 1, whichever attempt it is.
      const int64_t step = (loader.epoch() + 1) * loader.size() - loader.remaining() + 1;
      if (step == kill_at_step && context.get_attempt() == 1 && context.get_world_rank() == 0) {
        std::raise(SIGKILL);  // as the kernel does when memory is short
      }
      if (step % kReportEvery == 0) {
        paceline::report({{"step", step}, {"loss", loss.item<double>()}},
                         paceline::Checkpoint::save(model, optimizer, loader), {.reduce = "mean"});
      }
    }
  }
}
PACELINE_TRAIN_LOOP(train_loop);

/// Collects the loss by step as it is reported, in the driver.
class Curve : public paceline::UserCallback {
 public:
  void after_report(const paceline::RunContext&, const std::vector<paceline::Metrics>& by_rank,
                    const paceline::Checkpoint*) override {
    losses[std::lround(by_rank[0].get<double>("step"))] = by_rank[0].get<double>("loss");
  }
  void after_exception(const paceline::RunContext&, const std::map<int64_t, std::string>&) override { ++failures; }

  std::map<int64_t, double> losses;
  int failures = 0;
};

struct Options {
  int64_t num_workers = 2;
  int64_t num_epochs = 5;
  int64_t kill_at_step = 47;  // between two reports, and not at the end of an epoch
  std::string storage_path = "results";
};

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app("Trains with a worker that is killed on the way, and shows that the curve continues.");
  app.formatter(std::make_shared<PlainHelp>());
  app.add_option("--num-workers", options.num_workers, "worker processes; they share a batch of 64")
      ->check(CLI::IsMember({1, 2, 4, 8}))
      ->capture_default_str();
  app.add_option("--num-epochs", options.num_epochs, "passes over the data, each of 16 steps")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}))
      ->capture_default_str();
  app.add_option("--kill-at-step", options.kill_at_step, "step at which the worker is killed")
      ->check(CLI::Range(int64_t{1}, int64_t{16'000}))
      ->capture_default_str();
  app.add_option("--storage-path", options.storage_path, "folder of the runs")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    explain(app, error);
  }
  return options;
}

std::shared_ptr<Curve> train(const Options& options, int64_t kill_at_step) {
  auto curve = std::make_shared<Curve>();
  paceline::TorchTrainer trainer(
      train_loop,
      {.train_loop_config = {{"num_epochs", options.num_epochs}, {"kill_at_step", kill_at_step}},
       .scaling_config = {.num_workers = options.num_workers, .threads_per_worker = 1},
       .run_config = {
           .storage_path = options.storage_path, .failure_config = {.max_failures = 1}, .callbacks = {curve}}});
  const paceline::Result result = trainer.fit();
  if (result.state != "finished") std::exit(result.exit_code());  // after Ctrl-C, for example
  return curve;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    paceline::init(argc, argv);
    const Options options = parse(argc, argv);
    const auto undisturbed = train(options, /*kill_at_step=*/-1);
    const auto killed = train(options, options.kill_at_step);
    std::cout << "\n  step   loss undisturbed   loss with " << killed->failures << " failure\n"
              << std::setprecision(10);
    for (const auto& [step, loss] : undisturbed->losses) {
      std::cout << std::setw(6) << step << std::setw(19) << loss << std::setw(22) << killed->losses[step] << "\n";
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "040_resume_after_failure: " << error.what() << "\n";
    return 1;
  }
}
