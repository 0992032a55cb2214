// profile_cost, memory_profile_cost: by how many percent a data-parallel step of the VisionTransformer of
// examples/030_cifar10_vit is longer while `paceline profile` watches both workers, than between such profiles. They
// are asked for as the command line asks; the environment's PROFILE_KIND says which (rpc/messages.h), or "heap":
// memory, with DebugConfig.heap_profile.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>

#include "examples/vision/vision_transformer.h"
#include "measurement.h"
#include "paceline/paceline.h"
#include "paceline/run/control_client.h"

using namespace paceline::benchmarks;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kSeconds = 10;  // of a profile, and between two
constexpr int64_t kSecond = 1'000'000'000;

std::string file_in(const std::string& scratch, const char* name) {
  return scratch + "/" + name;
}

// What was asked: [begin, begin + kSeconds) is watched, until `end` what was seen is named and kept.
struct Window {
  int64_t begin_ns = 0, end_ns = 0;
};

void train_loop(const paceline::Config& config) {
  constexpr int64_t kBatchSize = 16;  // of each rank
  constexpr int64_t kWarmUp = 4;
  const auto scratch = config.get<std::string>("scratch");
  auto model = paceline::prepare_model(VisionTransformer());
  paceline::optim::AdamW optimizer(model->parameters(), paceline::optim::AdamWOptions(1e-3).weight_decay(1e-2));
  const torch::Tensor images = torch::randn({kBatchSize, 3, 32, 32});
  const torch::Tensor labels = torch::randint(10, {kBatchSize}, torch::kInt64);
  std::vector<std::pair<int64_t, int64_t>> steps;
  for (bool is_over = false; !is_over;) {
    const int64_t start_ns = now_ns();
    const torch::Tensor loss = torch::nn::functional::cross_entropy(model->forward(images), labels);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    steps.emplace_back(start_ns, now_ns());
    if (std::ssize(steps) == kWarmUp) std::ofstream(file_in(scratch, "warm"));
    is_over = paceline::broadcast_from_rank_zero(fs::exists(file_in(scratch, "end"))).get<bool>();
  }
  write_rank(config, {{"steps", steps}});
}

std::vector<Window> ask(const Arguments& arguments, const std::string& kind) {
  const std::shared_ptr<void> end(nullptr, [&](void*) { std::ofstream(file_in(arguments.scratch, "end")); });
  while (!fs::exists(file_in(arguments.scratch, "warm"))) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::string folder = fs::directory_iterator(arguments.scratch + "/results")->path();
  std::vector<Window> windows;
  for (int64_t i = 0; i < arguments.iterations; ++i) {
    std::this_thread::sleep_for(std::chrono::seconds(kSeconds));
    Window window{.begin_ns = now_ns()};
    const auto taken = paceline::run::request_profile(
                           folder, {.seconds = static_cast<double>(kSeconds), .who = "the benchmark", .kind = kind})
                           .ValueOrDie();
    window.end_ns = now_ns();
    if (taken.folder.empty()) throw std::runtime_error("nothing was seen: " + taken.problem);
    windows.push_back(window);
  }
  return windows;
}

double median_of(std::vector<double> values) {
  if (values.empty()) throw std::runtime_error("no step fits into a window");
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

// Milliseconds of the steps that lie between the two times.
std::vector<double> steps_within(const paceline::Json& steps, int64_t from_ns, int64_t to_ns) {
  std::vector<double> within;
  for (const auto& step : steps) {
    const auto begin = step[0].get<int64_t>(), end = step[1].get<int64_t>();
    if (begin >= from_ns && end <= to_ns) within.push_back(static_cast<double>(end - begin) / 1e6);
  }
  return within;
}

void add(std::vector<double>& all, const std::vector<double>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

void print(const std::vector<Window>& windows, const paceline::Json& steps) {
  std::vector<double> longer, between, within;
  int64_t free_since = windows.front().begin_ns - kSeconds * kSecond;
  for (const Window& window : windows) {
    const std::vector<double> before = steps_within(steps, free_since, window.begin_ns);
    const std::vector<double> watched = steps_within(steps, window.begin_ns, window.begin_ns + kSeconds * kSecond);
    longer.push_back(std::max(0.0, 100 * (median_of(watched) / median_of(before) - 1)));
    add(between, before);
    add(within, steps_within(steps, window.begin_ns - kSecond, window.end_ns));
    free_since = window.end_ns;
  }
  print_samples(longer, {{"a step without it (ms)", median_of(between)},
                         {"the longest step without it (ms)", std::ranges::max(between)},
                         {"the longest step until it was named and kept (ms)", std::ranges::max(within)}});
}

}  // namespace

PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  paceline::init(argc, argv);
  const Arguments arguments = parse_arguments(argc, argv);
  const char* const wanted = std::getenv("PROFILE_KIND");
  const std::string kind = wanted == nullptr ? paceline::rpc::kCpuProfile : wanted;
  const bool is_heap = kind == "heap";
  std::future<std::vector<Window>> windows =
      std::async(std::launch::async, ask, arguments, is_heap ? paceline::rpc::kMemoryProfile : kind);
  fit(train_loop, arguments, two_workers(), /*max_failures=*/0, {.heap_profile = is_heap});
  print(windows.get(), read_rank(arguments, 0).at("steps"));
}
