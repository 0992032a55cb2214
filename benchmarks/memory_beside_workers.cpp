// memory_beside_workers: a run that has reported and waits in its train loop while helpers_memory.py measures it.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "measurement.h"
#include "paceline/paceline.h"

using namespace paceline::benchmarks;

void train_loop(const paceline::Config& config) {
  const int64_t iterations = config.get<int64_t>("iterations");
  for (int64_t step = 0; step < iterations; ++step) paceline::report({{"step", step}});
  paceline::report({{"step", -1}}, kilobyte_checkpoint(config));
  write_rank(config, {{"pid", getpid()}});
  const std::filesystem::path measured = config.get<std::string>("scratch") + "/measured";
  while (!std::filesystem::exists(measured)) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  paceline::init(argc, argv);
  fit_two_workers(train_loop, parse_arguments(argc, argv));
}
