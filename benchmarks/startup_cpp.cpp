// startup_cpp: seconds from fit() to the first line of the train loop, on the later of two workers.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "measurement.h"
#include "paceline/paceline.h"

using namespace paceline::benchmarks;

void train_loop(const paceline::Config& config) {
  const int64_t first_line_ns = now_ns();
  write_rank(config, {{"now_ns", first_line_ns}});
}
PACELINE_TRAIN_LOOP(train_loop);

// Until two programs, started together, have loaded LibTorch: what no start of two processes can be faster than.
double seconds_to_load_libtorch(const std::filesystem::path& program) {
  const std::string command = "'" + (program.parent_path() / "load_libtorch").string() + "' </dev/null";
  const int64_t start_ns = now_ns();
  std::array<FILE*, 2> outputs;
  for (FILE*& output : outputs) output = ::popen(command.c_str(), "r");  // NOLINT(bugprone-command-processor)
  for (FILE* output : outputs) {
    if (output == nullptr || std::fgetc(output) == EOF) throw std::runtime_error("cannot run " + command);
  }
  const int64_t end_ns = now_ns();
  for (FILE* output : outputs) ::pclose(output);
  return static_cast<double>(end_ns - start_ns) / 1e9;
}

int main(int argc, char** argv) {
  paceline::init(argc, argv);
  const Arguments arguments = parse_arguments(argc, argv);
  const int64_t start_ns = now_ns();
  fit_two_workers(train_loop, arguments);
  // torchrun's figure begins with its command; so this is what compares to it.
  const int64_t command_ns = std::stoll(std::getenv("BENCHMARK_START_NS"));
  print_samples({seconds_to_last_rank(arguments, start_ns)},
                {{"Paceline, from the start of the command", seconds_to_last_rank(arguments, command_ns)},
                 {"two programs that only load LibTorch", seconds_to_load_libtorch(argv[0])}});
}
