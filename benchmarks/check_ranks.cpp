// check_ranks: milliseconds of a data-parallel step with 84 MB of weights in which the ranks compare them, beside the
// steps between: every other one does, by DebugConfig.check_ranks_every.
#include <memory>

#include "measurement.h"
#include "paceline/paceline.h"

using namespace paceline::benchmarks;

void train_loop(const paceline::Config& config) {
  constexpr int64_t kMegabytes = 84, kWarmUp = 6;
  auto layers = paceline::prepare_model(std::dynamic_pointer_cast<torch::nn::SequentialImpl>(model_of(kMegabytes)));
  paceline::optim::SGD optimizer(layers->parameters(), 0.01);
  const torch::Tensor batch = torch::randn({32, 1024});
  std::vector<double> checked, unchecked;
  for (int64_t step = 1; step <= kWarmUp + 2 * config.get<int64_t>("iterations"); ++step) {
    const int64_t start_ns = now_ns();
    const torch::Tensor loss = layers->forward(batch).square().mean();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step > kWarmUp) (step % 2 == 0 ? checked : unchecked).push_back(static_cast<double>(now_ns() - start_ns) / 1e6);
  }
  write_rank(config, {{"samples", checked}, {"peers", {{"the step without it", unchecked}}}});
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  return measure_in_loop(argc, argv, train_loop, two_workers(), {.check_ranks_every = 2}, {.backend = "gloo"});
}
