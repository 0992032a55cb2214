// What the scenarios program does before init(), and a train loop that says how its workers have begun.
#include <paceline/paceline.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/robustness/train_loops.h"

namespace paceline::testing {
namespace {

// Everything that has state of its own: MKL, oneDNN, OpenMP, the autograd engine.
void use_libraries() {
  torch::nn::Sequential model(torch::nn::Conv2d(3, 8, 3), torch::nn::Flatten(), torch::nn::Linear(8 * 14 * 14, 10));
  model->forward(torch::ones({4, 3, 16, 16})).square().mean().backward();
  (void)torch::matmul(torch::ones({200, 200}), torch::ones({200, 200}));
}

// How many threads OpenMP starts for a large tensor.
int64_t start_pool() {
  const auto count = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}); };
  const int64_t before = count();
  (void)torch::ones({1 << 20}).exp();
  return count() - before;
}

Json beginnings() {
  const int64_t started = start_pool();
  use_libraries();
  const std::vector<torch::Tensor> drawn = all_gather(torch::rand({1}, torch::kDouble));
  const char* variable = std::getenv("OMP_NUM_THREADS");
  return {{"drawn", {drawn.at(0).item<double>(), drawn.at(1).item<double>()}},
          {"started", started},
          {"omp", variable == nullptr ? "" : variable}};
}
PACELINE_TRAIN_LOOP(beginnings);

}  // namespace

void act_before_init() {
  const char* variable = std::getenv("BEFORE_INIT");
  const std::string what = variable == nullptr ? "" : variable;
  if (const char* file = std::getenv("PASSAGES")) std::ofstream(file, std::ios::app) << ::getpid() << "\n";
  if (what == "print") std::printf("printed before init\n");
  if (what == "seed") torch::manual_seed(7);
  if (what == "draw") (void)torch::rand({10});
  if (what == "open") [[maybe_unused]]
    static auto* const file = std::fopen("/proc/self/exe", "r");
  if (what == "thread") std::thread([] { ::pause(); }).detach();
  if (what == "libraries") {
    torch::set_num_threads(1);
    use_libraries();
  }
}

}  // namespace paceline::testing
