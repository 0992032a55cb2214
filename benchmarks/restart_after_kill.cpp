// restart_after_kill: seconds from the SIGKILL of one of two workers to the train loop running again on both.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "measurement.h"
#include "paceline/paceline.h"

using namespace paceline::benchmarks;

void train_loop(const paceline::Config& config) {
  const int64_t first_line_ns = now_ns();
  if (paceline::get_context().get_attempt() > 1) {
    write_rank(config, {{"now_ns", first_line_ns}});
    return;
  }
  paceline::report({{"step", 0}}, kilobyte_checkpoint(config));
  paceline::barrier();
  if (paceline::get_context().get_world_rank() == 0) std::this_thread::sleep_for(std::chrono::minutes(1));
  // Well after the start, as a worker dies in life.
  std::this_thread::sleep_for(std::chrono::milliseconds(1000 + 170 * config.get<int64_t>("round")));
  std::ofstream(config.get<std::string>("scratch") + "/killed") << now_ns() << std::flush;
  std::raise(SIGKILL);
}
PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  paceline::init(argc, argv);
  const Arguments arguments = parse_arguments(argc, argv);
  fit_two_workers(train_loop, arguments, /*max_failures=*/1);
  int64_t killed_ns = 0;
  std::ifstream(arguments.scratch + "/killed") >> killed_ns;
  print_samples({seconds_to_last_rank(arguments, killed_ns)});
}
