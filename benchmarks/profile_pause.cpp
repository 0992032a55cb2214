// profile_pause: for how long the thread that trains stands still while `paceline profile` watches it in each of its
// ways, or its stack is taken: the longest time from one product of two matrices, of less than a millisecond, to the
// next. One worker of one thread, so that the profilers have a core for themselves: what is left is what they stop.
#include <algorithm>
#include <filesystem>
#include <future>
#include <map>
#include <thread>

#include "asked_run.h"
#include "paceline/paceline.h"
#include "paceline/run/control_client.h"

using namespace paceline::benchmarks;

namespace {

constexpr int64_t kSeconds = 2;  // of a profile, and before each
constexpr int64_t kShortest = 1'000'000;

// Looks for the end on a thread of its own, for a file is not looked for in less than a millisecond on every machine.
void train_loop(const paceline::Config& config) {
  const torch::Tensor one = torch::rand({128, 128});
  const auto end = std::async(std::launch::async, [&] {
    while (!are_answered(config)) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  begin_questions(config);
  std::vector<std::pair<int64_t, int64_t>> pauses;  // when, and for how long
  for (int64_t before_ns = now_ns(); end.wait_for(std::chrono::seconds(0)) != std::future_status::ready;) {
    (void)one.mm(one);
    const int64_t now = now_ns();
    if (now - before_ns >= kShortest) pauses.emplace_back(before_ns, now - before_ns);
    before_ns = now;
  }
  write_rank(config, {{"pauses", pauses}});
}

std::vector<Question> questions(bool is_heap) {
  const auto profile = [](const char* what, const char* kind) { return question_for_profile(what, kind, kSeconds); };
  if (is_heap) return {profile("the whole heap", paceline::rpc::kMemoryProfile)};
  return {profile("processor time", paceline::rpc::kCpuProfile),
          profile("waiting", paceline::rpc::kOffCpuProfile),
          profile("LibTorch's memory", paceline::rpc::kMemoryProfile),
          profile("a timeline", paceline::rpc::kTimelineProfile),
          {"stacks",
           [](const std::string& run_folder) { (void)paceline::run::request_stacks(run_folder, -1).ValueOrDie(); }}};
}

// Milliseconds.
double longest_within(const paceline::Json& pauses, int64_t from_ns, int64_t to_ns) {
  int64_t most = kShortest;
  for (const auto& pause : pauses) {
    const auto begin = pause[0].get<int64_t>(), length = pause[1].get<int64_t>();
    if (begin + length >= from_ns && begin <= to_ns) most = std::max(most, length);
  }
  return static_cast<double>(most) / 1e6;
}

}  // namespace

PACELINE_TRAIN_LOOP(train_loop);

int main(int argc, char** argv) {
  paceline::init(argc, argv);
  const Arguments arguments = parse_arguments(argc, argv);
  paceline::ScalingConfig scaling = two_workers();
  scaling.num_workers = 1;
  std::vector<double> of_iterations(static_cast<size_t>(arguments.iterations));
  std::map<std::string, double> longest;  // by what was asked
  const auto note = [&](const std::string& what, double pause) {
    double& most = longest[what + " (ms)"];
    most = std::max(most, pause);
  };
  for (const bool is_heap : {false, true}) {
    Arguments own = arguments;
    own.scratch = arguments.scratch + (is_heap ? "/heap" : "/rest");
    std::filesystem::create_directories(own.scratch);
    const std::vector<Question> all = questions(is_heap);
    const auto asked = fit_and_ask(train_loop, own, scaling, {.heap_profile = is_heap}, kSeconds, all);
    const paceline::Json pauses = read_rank(own, 0).at("pauses");
    for (size_t i = 0; i < asked.size(); ++i) {
      const double pause = longest_within(pauses, asked[i].begin_ns, asked[i].end_ns);
      double& of_iteration = of_iterations[i / all.size()];
      of_iteration = std::max(of_iteration, pause);
      note(asked[i].what, pause);
      note("no profile", longest_within(pauses, asked[i].free_since_ns, asked[i].begin_ns));
    }
  }
  print_samples(of_iterations, longest);
}
