// profile_cost, memory_profile_cost: by how many percent a data-parallel step of the VisionTransformer of
// examples/030_cifar10_vit is longer while `paceline profile` watches both workers, than between such profiles. They
// are asked for as the command line asks; the environment's PROFILE_KIND says which (rpc/messages.h), or "heap":
// memory, with DebugConfig.heap_profile.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "asked_run.h"
#include "examples/vision/vision_transformer.h"
#include "paceline/paceline.h"
#include "paceline/rpc/messages.h"

using namespace paceline::benchmarks;

namespace {

constexpr int64_t kSeconds = 10;  // of a profile, and between two
constexpr int64_t kSecond = 1'000'000'000;

void train_loop(const paceline::Config& config) {
  constexpr int64_t kBatchSize = 16;  // of each rank
  constexpr int64_t kWarmUp = 4;
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
    if (std::ssize(steps) == kWarmUp) begin_questions(config);
    is_over = paceline::broadcast_from_rank_zero(are_answered(config)).get<bool>();
  }
  write_rank(config, {{"steps", steps}});
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

// A profile watches for kSeconds from its beginning; until its end what was seen is named and kept.
void print(const std::vector<Asked>& profiles, const paceline::Json& steps) {
  std::vector<double> longer, between, within;
  for (const Asked& profile : profiles) {
    const std::vector<double> before = steps_within(steps, profile.free_since_ns, profile.begin_ns);
    const std::vector<double> watched = steps_within(steps, profile.begin_ns, profile.begin_ns + kSeconds * kSecond);
    longer.push_back(std::max(0.0, 100 * (median_of(watched) / median_of(before) - 1)));
    add(between, before);
    add(within, steps_within(steps, profile.begin_ns - kSecond, profile.end_ns));
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
  const auto profiles =
      fit_and_ask(train_loop, arguments, two_workers(), {.heap_profile = is_heap}, kSeconds,
                  {question_for_profile(kind, is_heap ? paceline::rpc::kMemoryProfile : kind, kSeconds)});
  print(profiles, read_rank(arguments, 0).at("steps"));
}
