// profile_pause: for how long the thread that trains stands still while `paceline profile` watches it in each of its
// ways, or its stack is taken: the longest time from one product of two matrices, of less than a millisecond, to the
// next. One worker of one thread, so that the profilers have a core for themselves: what is left is what they stop.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <stdexcept>
#include <thread>

#include "measurement.h"
#include "paceline/paceline.h"
#include "paceline/run/control_client.h"

using namespace paceline::benchmarks;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kSeconds = 2;  // of a profile, and before each

std::string file_in(const std::string& scratch, const char* name) {
  return scratch + "/" + name;
}

void train_loop(const paceline::Config& config) {
  const auto scratch = config.get<std::string>("scratch");
  const torch::Tensor one = torch::rand({128, 128});
  const auto end = std::async(std::launch::async, [&] {
    while (!fs::exists(file_in(scratch, "end"))) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  const std::ofstream warm(file_in(scratch, "warm"));
  std::vector<std::pair<int64_t, int64_t>> pauses;  // when, and for how long
  for (int64_t before_ns = now_ns(); end.wait_for(std::chrono::seconds(0)) != std::future_status::ready;) {
    (void)one.mm(one);
    const int64_t now = now_ns();
    if (now - before_ns >= 1'000'000) pauses.emplace_back(before_ns, now - before_ns);
    before_ns = now;
  }
  write_rank(config, {{"pauses", pauses}});
}

struct Window {
  std::string what;
  int64_t begin_ns = 0, end_ns = 0;
};

std::vector<Window> ask(const Arguments& arguments, bool is_heap) {
  const std::shared_ptr<void> end(nullptr, [&](void*) { std::ofstream(file_in(arguments.scratch, "end")); });
  while (!fs::exists(file_in(arguments.scratch, "warm"))) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::string folder = fs::directory_iterator(arguments.scratch + "/results")->path();
  const auto profile = [&](const char* kind) {
    return [&folder, kind] {
      const auto taken = paceline::run::request_profile(
          folder, {.seconds = static_cast<double>(kSeconds), .who = "the benchmark", .kind = kind});
      if (taken.ValueOrDie().folder.empty()) throw std::runtime_error("nothing was seen: " + taken->problem);
    };
  };
  std::vector<std::pair<std::string, std::function<void()>>> questions = {
      {"processor time", profile(paceline::rpc::kCpuProfile)},
      {"waiting", profile(paceline::rpc::kOffCpuProfile)},
      {"LibTorch's memory", profile(paceline::rpc::kMemoryProfile)},
      {"a timeline", profile(paceline::rpc::kTimelineProfile)},
      {"stacks", [&] { (void)paceline::run::request_stacks(folder, -1).ValueOrDie(); }}};
  if (is_heap) questions = {{"the whole heap", profile(paceline::rpc::kMemoryProfile)}};
  std::vector<Window> windows;
  for (int64_t i = 0; i < arguments.iterations; ++i) {
    for (const auto& [what, question] : questions) {
      windows.push_back({"no profile", now_ns(), 0});
      std::this_thread::sleep_for(std::chrono::seconds(kSeconds));
      const int64_t begin_ns = windows.back().end_ns = now_ns();
      question();
      windows.push_back({what, begin_ns, now_ns()});
    }
  }
  return windows;
}

// Milliseconds, by what was taken.
void add_longest(const std::vector<Window>& windows, const paceline::Json& pauses,
                 std::map<std::string, std::vector<double>>& longest) {
  for (const Window& window : windows) {
    double most_ms = 1;  // shorter ones were not noted
    for (const auto& pause : pauses) {
      const auto begin = pause[0].get<int64_t>(), length = pause[1].get<int64_t>();
      if (begin + length >= window.begin_ns && begin <= window.end_ns) {
        most_ms = std::max(most_ms, static_cast<double>(length) / 1e6);
      }
    }
    longest[window.what].push_back(most_ms);
  }
}

}  // namespace

PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  paceline::init(argc, argv);
  const Arguments arguments = parse_arguments(argc, argv);
  std::map<std::string, std::vector<double>> longest;
  for (const bool is_heap : {false, true}) {
    Arguments own = arguments;
    own.scratch = arguments.scratch + (is_heap ? "/heap" : "/rest");
    fs::create_directories(own.scratch);
    auto windows = std::async(std::launch::async, ask, own, is_heap);
    paceline::ScalingConfig scaling = two_workers();
    scaling.num_workers = 1;
    fit(train_loop, own, scaling, /*max_failures=*/0, {.heap_profile = is_heap});
    add_longest(windows.get(), read_rank(own, 0).at("pauses"), longest);
  }
  std::vector<double> of_iterations(static_cast<size_t>(arguments.iterations));
  std::map<std::string, double> beside;
  for (const auto& [what, values] : longest) {
    beside[what + " (ms)"] = std::ranges::max(values);
    if (what == "no profile") continue;
    for (size_t i = 0; i < values.size(); ++i) of_iterations[i] = std::max(of_iterations[i], values[i]);
  }
  print_samples(of_iterations, beside);
}
