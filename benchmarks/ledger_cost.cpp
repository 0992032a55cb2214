// ledger_cost: nanoseconds that a collective takes to be noted, with its kind, type, size and times: what begins
// and ends it in the progress word and its ledger.
#include <chrono>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "paceline/core/progress.h"

namespace {

constexpr int64_t kCollectives = 1'000'000;

double nanoseconds_each(paceline::GroupProgress& group) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < kCollectives; ++i) {
    group.end_collective(
        group.begin_collective({paceline::Collective::all_reduce, paceline::ElementType::float32, 4096 + i}));
  }
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
  return taken.count() / kCollectives;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program;
  int64_t iterations = 1, round = 0;
  std::string scratch, data;
  program.add_option("--iterations", iterations);
  program.add_option("--round", round);
  program.add_option("--scratch", scratch);
  program.add_option("--data", data);
  CLI11_PARSE(program, argc, argv);
  const paceline::SystemClock clock;
  auto progress = paceline::Progress::create(clock).ValueOrDie();
  const auto group = progress.add_group();
  progress.set_step(1);
  nanoseconds_each(*group);  // the ring's pages
  std::string samples;
  for (int64_t i = 0; i < iterations; ++i) {
    samples += (i == 0 ? "" : ", ") + std::to_string(nanoseconds_each(*group));
  }
  std::printf("{\"samples\": [%s]}\n", samples.c_str());
}
