#include "measurement.h"

#include <algorithm>
#include <chrono>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "paceline/train/init.h"
#include "paceline/train/session.h"

namespace paceline::benchmarks {
namespace {

constexpr int64_t kWidth = 1448;  // of wide_model()

std::string rank_file(const std::string& scratch, int64_t rank) {
  return scratch + "/rank_" + std::to_string(rank) + ".json";
}

}  // namespace

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("A program that benchmarks/run.py measures");
  app.add_option("--scratch", arguments.scratch)->required();
  app.add_option("--iterations", arguments.iterations)->required();
  app.add_option("--round", arguments.round)->required();
  app.add_option("--data", arguments.data)->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return arguments;
}

int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ScalingConfig two_workers() {
  return {.num_workers = 2, .threads_per_worker = 1};
}

ScalingConfig one_gpu() {
  return {.num_workers = 1, .use_gpu = true};
}

Result fit(TrainLoop loop, const Arguments& arguments, const ScalingConfig& scaling, int64_t max_failures,
           const DebugConfig& debug_config, const TorchConfig& torch_config) {
  TorchTrainer trainer(loop, {.train_loop_config = {{"scratch", arguments.scratch},
                                                    {"iterations", arguments.iterations},
                                                    {"round", arguments.round},
                                                    {"data", arguments.data}},
                              .scaling_config = scaling,
                              .run_config = {.storage_path = arguments.scratch + "/results",
                                             .failure_config = {.max_failures = max_failures},
                                             .debug_config = debug_config,
                                             .checkpoint_config = {.num_to_keep = 2}},
                              .torch_config = torch_config});
  return trainer.fit();
}

Result fit_two_workers(TrainLoop loop, const Arguments& arguments, int64_t max_failures) {
  return fit(loop, arguments, two_workers(), max_failures);
}

void write_rank(const Config& config, const Json& values) {
  const std::string path = rank_file(config.get<std::string>("scratch"), get_context().get_world_rank());
  std::ofstream(path + ".unfinished") << values;
  std::filesystem::rename(path + ".unfinished", path);
}

Json read_rank(const Arguments& arguments, int64_t rank) {
  return Json::parse(std::ifstream(rank_file(arguments.scratch, rank)));
}

double seconds_to_last_rank(const Arguments& arguments, int64_t start_ns) {
  const auto now = [&](int64_t rank) { return read_rank(arguments, rank).at("now_ns").get<int64_t>(); };
  return static_cast<double>(std::max(now(0), now(1)) - start_ns) / 1e9;
}

Checkpoint kilobyte_checkpoint(const Config& config) {
  const std::string rank = std::to_string(get_context().get_world_rank());
  const std::filesystem::path folder = config.get<std::string>("scratch") + "/files_" + rank;
  std::filesystem::create_directories(folder);
  std::ofstream(folder / ("rank_" + rank + ".bin")) << std::string(1000, '\0');
  return Checkpoint::from_directory(folder);
}

std::shared_ptr<torch::nn::Module> model_of(int64_t megabytes) {
  torch::nn::Sequential model;
  const auto options = torch::nn::LinearOptions(1024, 1024).bias(false);
  for (int64_t i = 0; i < megabytes / 4; ++i) model->push_back(torch::nn::Linear(options));
  return model.ptr();
}

torch::nn::Sequential wide_model() {
  constexpr int64_t kDepth = 10;
  torch::nn::Sequential layers;
  for (int64_t i = 0; i < kDepth; ++i) {
    layers->push_back(torch::nn::Linear(kWidth, kWidth));
    layers->push_back(torch::nn::ReLU());
  }
  return layers;
}

torch::Tensor wide_batch() {
  return torch::randn({32, kWidth});
}

void write_samples(const Config& config, const std::vector<double>& samples) {
  write_rank(config, {{"samples", samples}});
}

void time_steps(const Config& config, int64_t warm_up, const std::function<void()>& step) {
  const int64_t iterations = config.get<int64_t>("iterations");
  std::vector<double> milliseconds;
  for (int64_t done = 0; done < warm_up + iterations; ++done) {
    const int64_t start_ns = now_ns();
    step();
    if (done >= warm_up) milliseconds.push_back(static_cast<double>(now_ns() - start_ns) / 1e6);
  }
  write_samples(config, milliseconds);
}

void time_gpu_steps(const Config& config, const std::function<void()>& step) {
  constexpr int64_t kSteps = 10;
  std::vector<double> milliseconds;
  for (int64_t window = -1; window < config.get<int64_t>("iterations"); ++window) {  // the first is the warm-up
    const int64_t start_ns = now_ns();
    for (int64_t i = 0; i < kSteps; ++i) step();
    torch::cuda::synchronize();
    if (window >= 0) milliseconds.push_back(static_cast<double>(now_ns() - start_ns) / 1e6 / kSteps);
  }
  write_samples(config, milliseconds);
}

int measure_in_loop(int argc, char** argv, TrainLoop loop, const ScalingConfig& scaling,
                    const DebugConfig& debug_config, const TorchConfig& torch_config) {
  init(argc, argv);
  const Arguments arguments = parse_arguments(argc, argv);
  fit(loop, arguments, scaling, /*max_failures=*/0, debug_config, torch_config);
  std::cout << read_rank(arguments, 0) << std::endl;
  return 0;
}

void print_samples(const std::vector<double>& samples, const Json& also) {
  std::cout << Json{{"samples", samples}, {"also", also}} << std::endl;
}

}  // namespace paceline::benchmarks
