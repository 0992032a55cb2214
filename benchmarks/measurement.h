// How a measured program is called, and how it hands over what it measured; rows.py tells the contract.
//
// The driver calls parse_arguments() after init(), trains with fit() or fit_two_workers(), and ends with
// print_samples(). Workers write what they measured with write_rank(). Errors are exceptions, which end the program:
// run.py reports them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "paceline/train/trainer.h"

namespace paceline::benchmarks {

struct Arguments {
  /// A folder that exists only for this run.
  std::string scratch;
  /// How often the row's step is measured.
  int64_t iterations = 1;
  /// Which run this is, from 0: rows vary with it what must not always be the same.
  int64_t round = 0;
  /// The folder with MNIST.
  std::string data;
};

Arguments parse_arguments(int argc, char** argv);

/// Nanoseconds on the monotonic clock, which is one for all processes of a machine.
int64_t now_ns();

/// What most rows measure: two workers of one thread.
ScalingConfig two_workers();
/// What the rows of GPUs measure: one worker with a GPU.
ScalingConfig one_gpu();

/// Runs `loop` on workers; it finds the arguments in its configuration, by name.
Result fit(TrainLoop loop, const Arguments& arguments, const ScalingConfig& scaling, int64_t max_failures = 0,
           const DebugConfig& debug_config = {}, const TorchConfig& torch_config = {});
/// Runs `loop` on two_workers().
Result fit_two_workers(TrainLoop loop, const Arguments& arguments, int64_t max_failures = 0);

/// Puts `values` of this rank into the configuration's scratch folder, in one piece.
void write_rank(const Config& config, const Json& values);
/// What `rank` wrote.
Json read_rank(const Arguments& arguments, int64_t rank);
/// From `start_ns` to the later of the two ranks' "now_ns".
double seconds_to_last_rank(const Arguments& arguments, int64_t start_ns);

/// A checkpoint of 1 kB, in a folder of this rank under the scratch folder.
Checkpoint kilobyte_checkpoint(const Config& config);

/// What measure_in_loop() prints of rank 0.
void write_samples(const Config& config, const std::vector<double>& samples);

/// Writes as samples the milliseconds of each of the configured iterations of `step`, which come after `warm_up`
/// others.
void time_steps(const Config& config, int64_t warm_up, const std::function<void()>& step);

/// As time_steps(), of `iterations` windows of ten steps each: the milliseconds of a step, by the time that passes
/// until the GPU has done all ten.
void time_gpu_steps(const Config& config, const std::function<void()>& step);

/// `megabytes` (2^20 bytes) of parameters, in layers of 4.
std::shared_ptr<torch::nn::Module> model_of(int64_t megabytes);
/// 84 MB of parameters: ten square layers, for batches of wide_batch(). peers/workloads.py has it too.
torch::nn::Sequential wide_model();
torch::Tensor wide_batch();

/// The main() of a program that measures in its train loop: trains and prints what rank 0 has written with
/// write_rank(): "samples", and as far as there are any "also" and "peers".
int measure_in_loop(int argc, char** argv, TrainLoop loop, const ScalingConfig& scaling = two_workers(),
                    const DebugConfig& debug_config = {}, const TorchConfig& torch_config = {});

/// The line that run.py reads; `also` holds further observations by description.
void print_samples(const std::vector<double>& samples, const Json& also = Json::object());

}  // namespace paceline::benchmarks
