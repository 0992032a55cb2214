// list_runs: milliseconds that the program `paceline list` takes with 10,000 runs in the run store, all folders there.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "measurement.h"
#include "paceline/track/run_store.h"

using namespace paceline::benchmarks;

namespace {

constexpr int kRuns = 10'000;

// A run that has ended, with the metrics that a training has.
paceline::track::RunRecord run_number(int number, const std::string& storage) {
  paceline::track::RunRecord record;
  record.run = {.name = "run_" + std::to_string(number), .state = "finished", .since = 1.8e9 + number};
  record.run.path = storage + "/" + record.run.name;
  record.run.created = record.run.opened = record.run.since;
  record.run.world_size = 2;
  paceline::track::add_metrics(
      {.report = 10, .metrics = {{"epoch", 10}, {"loss", 1.0 / number}, {"eval", {{"accuracy", 0.98}}}}}, record);
  return record;
}

void make_runs(const std::string& scratch) {
  const std::string storage = scratch + "/storage";
  auto store = paceline::track::RunStore::open(paceline::track::run_store_path(scratch + "/state")).ValueOrDie();
  for (int number = 1; number <= kRuns; ++number) {
    const auto record = run_number(number, storage);
    std::filesystem::create_directories(record.run.path);
    std::ofstream(record.run.path + "/journal.jsonl") << "{}\n";
    if (const auto put = store.put(record); !put.ok()) throw std::runtime_error(put.ToString());
  }
}

// Milliseconds until all of the list has been read.
double list_once(const std::string& program) {
  const int64_t start_ns = now_ns();
  FILE* pipe = ::popen(("'" + program + "' list").c_str(), "r");  // NOLINT(bugprone-command-processor)
  if (pipe == nullptr) throw std::runtime_error("cannot run " + program);
  std::array<char, 1 << 16> portion{};
  int64_t lines = 0;
  while (const size_t count = std::fread(portion.data(), 1, portion.size(), pipe)) {
    for (size_t i = 0; i < count; ++i) lines += portion[i] == '\n' ? 1 : 0;
  }
  const int64_t end_ns = now_ns();
  if (::pclose(pipe) != 0 || lines != kRuns + 1) throw std::runtime_error(program + " did not list every run");
  return static_cast<double>(end_ns - start_ns) / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv);
  make_runs(arguments.scratch);
  ::setenv("PACELINE_STATE_DIR", (arguments.scratch + "/state").c_str(), 1);
  const std::string program = std::filesystem::path(argv[0]).parent_path().parent_path() / "paceline/cli/paceline";
  std::vector<double> milliseconds;
  for (int64_t i = 0; i < arguments.iterations; ++i) milliseconds.push_back(list_once(program));
  print_samples(milliseconds);
}
