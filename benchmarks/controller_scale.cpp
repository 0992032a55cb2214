// controller_scale: what 10,000 ranks that report once a second cost the driver, in cores: the processor time of the
// controller (its loop, inbox, history, indexer), of a whole run in one process, without what stands for agent and
// ranks. One sample a second.
#include <chrono>
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <stdexcept>

#include "benchmarks/simulated_ranks.h"
#include "paceline/storage/local/run_lock.h"

using namespace paceline;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kRanks = 10'000;
constexpr int64_t kWarmUp = 2;  // seconds

/// In cores, each second.
struct Costs {
  std::vector<double> of_controller, of_simulation;
};

Costs measure(benchmarks::SimulatedRanks& ranks, int64_t seconds) {
  const auto own_seconds = [&] { return benchmarks::seconds_of(CLOCK_THREAD_CPUTIME_ID) + ranks.agent().seconds(); };
  const auto controller_seconds = [&] { return benchmarks::seconds_of(CLOCK_PROCESS_CPUTIME_ID) - own_seconds(); };
  Costs costs;
  auto next = Clock::now();
  for (int64_t second = 1; second <= kWarmUp + seconds; ++second) {
    const double before = controller_seconds(), own_before = own_seconds();
    const auto begin = Clock::now();
    ranks.report_for_a_second(second, next);
    const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
    if (second <= kWarmUp) continue;
    costs.of_controller.push_back((controller_seconds() - before) / passed);
    costs.of_simulation.push_back((own_seconds() - own_before) / passed);
  }
  ranks.agent().finish(kWarmUp + seconds);
  return costs;
}

}  // namespace

int main(int argc, char** argv) {
  std::string scratch, data;
  int64_t iterations = 10, round = 0;
  CLI::App app("What 10,000 ranks that report once a second cost the driver, in cores");
  app.add_option("--scratch", scratch)->required();
  app.add_option("--iterations", iterations);
  app.add_option("--round", round);
  app.add_option("--data", data);
  CLI11_PARSE(app, argc, argv);
  const auto request = benchmarks::simulated_request(scratch + "/run", scratch + "/runs.sqlite", kRanks);
  std::filesystem::create_directories(request.run_folder);
  const auto lock = storage::RunLock::acquire(request.run_folder).ValueOrDie();
  SystemClock clock;
  controller::StopSignal stop;
  Costs costs;
  {
    benchmarks::SimulatedRanks ranks(kRanks,
                                     [&](benchmarks::SimulatedRanks& all) { costs = measure(all, iterations); });
    const auto outcome = controller::run_to_end(request, ranks, clock, stop).ValueOrDie();
    if (outcome.state != FinalState::finished) throw std::runtime_error(outcome.error);
  }
  std::cout << encode_json(
                   {{"samples", costs.of_controller}, {"peers", {{"simulated ranks and agent", costs.of_simulation}}}})
            << std::endl;
}
