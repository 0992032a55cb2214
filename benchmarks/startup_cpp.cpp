// startup_cpp: seconds from fit() to the first line of the train loop, on the later of two workers.
#include <cstdlib>
#include <string>

#include "measurement.h"
#include "paceline/paceline.h"

using namespace paceline::benchmarks;

void train_loop(const paceline::Config& config) {
  const int64_t first_line_ns = now_ns();
  write_rank(config, {{"now_ns", first_line_ns}});
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  paceline::init(argc, argv);
  const Arguments arguments = parse_arguments(argc, argv);
  const int64_t start_ns = now_ns();
  fit_two_workers(train_loop, arguments);
  // torchrun's figure begins with its command; so this is what compares to it.
  const int64_t command_ns = std::stoll(std::getenv("BENCHMARK_START_NS"));
  print_samples({seconds_to_last_rank(arguments, start_ns)},
                {{"Paceline, from the start of the command", seconds_to_last_rank(arguments, command_ns)}});
}
