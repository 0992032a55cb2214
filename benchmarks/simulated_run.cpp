// A live run of many ranks that report once a second, of which only the controller is real: what the dashboard looks at
// in the row dashboard_live (web/tests/measure_live.mjs). It stands in the user's run store and goes on until SIGTERM.
#include <chrono>
#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>

#include "benchmarks/simulated_ranks.h"
#include "paceline/storage/local/run_lock.h"
#include "paceline/track/run_store.h"

using namespace paceline;

int main(int argc, char** argv) {
  std::string folder;
  int64_t count = 1024;
  CLI::App app("A live run of simulated ranks that report once a second");
  app.add_option("folder", folder, "The run's")->required();
  app.add_option("--ranks", count);
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGTERM, [](int) { std::_Exit(0); });
  std::filesystem::create_directories(folder);
  const auto lock = storage::RunLock::acquire(folder).ValueOrDie();
  const auto request = benchmarks::simulated_request(folder, track::user_run_store().ValueOrDie(), count);
  SystemClock clock;
  controller::StopSignal stop;
  benchmarks::SimulatedRanks ranks(count, [](benchmarks::SimulatedRanks& all) {
    auto next = std::chrono::steady_clock::now();
    for (int64_t second = 1;; ++second) all.report_for_a_second(second, next);
  });
  return controller::run_to_end(request, ranks, clock, stop).ok() ? 0 : 1;
}
