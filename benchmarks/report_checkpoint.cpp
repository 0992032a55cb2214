// report_checkpoint: milliseconds of report() with a checkpoint of 1 kB from each of two workers.
#include "measurement.h"
#include "paceline/paceline.h"

using namespace paceline::benchmarks;

void train_loop(const paceline::Config& config) {
  constexpr int64_t kWarmUp = 3;
  const int64_t iterations = config.get<int64_t>("iterations");
  std::vector<double> milliseconds;
  for (int64_t step = 0; step < kWarmUp + iterations; ++step) {
    const paceline::Checkpoint checkpoint = kilobyte_checkpoint(config);
    const int64_t start_ns = now_ns();
    paceline::report({{"step", step}}, checkpoint);
    if (step >= kWarmUp) milliseconds.push_back(static_cast<double>(now_ns() - start_ns) / 1e6);
  }
  write_samples(config, milliseconds);
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  return measure_in_loop(argc, argv, train_loop);
}
