// Optimizer steps over 10 million parameters on one thread: LibTorch's AdamW and ours, which uses the fused kernel.
#include <benchmark/benchmark.h>
#include <torch/torch.h>

#include "paceline/optim/fused.h"

namespace paceline {
namespace {

template <class Optimizer>
void step(benchmark::State& state) {
  torch::set_num_threads(1);
  std::vector<torch::Tensor> parameters;
  for (int i = 0; i < 10; ++i) {
    parameters.push_back(torch::randn({1000, 1000}).requires_grad_());
    parameters.back().mutable_grad() = torch::randn({1000, 1000});
  }
  Optimizer optimizer(parameters, 1e-3);
  optimizer.step();  // makes its state
  for (auto _ : state) optimizer.step();
}
BENCHMARK(step<torch::optim::AdamW>)->Unit(benchmark::kMillisecond);
BENCHMARK(step<optim::AdamW>)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace paceline
