// report_metrics: microseconds that report(metrics) takes from a training step, with another step's work between calls.
#include "measurement.h"
#include "paceline/paceline.h"

using namespace paceline::benchmarks;

void train_loop(const paceline::Config& config) {
  constexpr int64_t kWarmUp = 50;
  const int64_t iterations = config.get<int64_t>("iterations");
  const torch::Tensor weights = torch::randn({256, 256});
  torch::Tensor state = torch::randn({256, 256});
  std::vector<double> microseconds;
  for (int64_t step = 0; step < kWarmUp + iterations; ++step) {
    // About a millisecond of computing, which also cools the caches that report() uses.
    for (int i = 0; i < 4; ++i) state = torch::tanh(torch::mm(state, weights));
    const double loss = state.mean().item<double>();
    const int64_t start_ns = now_ns();
    paceline::report({{"loss", loss}, {"step", step}});
    if (step >= kWarmUp) microseconds.push_back(static_cast<double>(now_ns() - start_ns) / 1e3);
  }
  write_samples(config, microseconds);
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  return measure_in_loop(argc, argv, train_loop);
}
