#include "asked_run.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <stdexcept>
#include <thread>
#include <utility>

#include "paceline/run/control_client.h"

namespace paceline::benchmarks {
namespace {

namespace fs = std::filesystem;

std::string begin_file(const std::string& scratch) {
  return scratch + "/begin";
}

std::string end_file(const std::string& scratch) {
  return scratch + "/end";
}

std::vector<Asked> ask_all(const Arguments& arguments, int64_t seconds, const std::vector<Question>& questions,
                           const std::atomic<bool>& is_over) {
  while (!fs::exists(begin_file(arguments.scratch))) {
    if (is_over) throw std::runtime_error("the run ended before it was warm");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const std::string folder = fs::directory_iterator(arguments.scratch + "/results")->path();
  std::vector<Asked> all;
  for (int64_t i = 0; i < arguments.iterations; ++i) {
    for (const Question& question : questions) {
      Asked asked{.what = question.what, .free_since_ns = now_ns()};
      std::this_thread::sleep_for(std::chrono::seconds(seconds));
      asked.begin_ns = now_ns();
      question.ask(folder);
      asked.end_ns = now_ns();
      all.push_back(std::move(asked));
    }
  }
  return all;
}

}  // namespace

Question question_for_profile(std::string what, std::string kind, int64_t seconds) {
  return {std::move(what), [kind = std::move(kind), seconds](const std::string& run_folder) {
            const auto taken =
                run::request_profile(run_folder,
                                     {.seconds = static_cast<double>(seconds), .who = "the benchmark", .kind = kind})
                    .ValueOrDie();
            if (taken.folder.empty()) throw std::runtime_error("nothing was seen: " + taken.problem);
          }};
}

void begin_questions(const Config& config) {
  const std::ofstream begin(begin_file(config.get<std::string>("scratch")));
}

bool are_answered(const Config& config) {
  return fs::exists(end_file(config.get<std::string>("scratch")));
}

std::vector<Asked> fit_and_ask(TrainLoop loop, const Arguments& arguments, const ScalingConfig& scaling,
                               const DebugConfig& debug_config, int64_t seconds,
                               const std::vector<Question>& questions) {
  std::atomic<bool> is_over = false;
  auto all = std::async(std::launch::async, [&] {
    const std::shared_ptr<void> end(nullptr, [&](void*) { const std::ofstream file(end_file(arguments.scratch)); });
    return ask_all(arguments, seconds, questions, is_over);
  });
  {
    const std::shared_ptr<void> over(nullptr, [&](void*) { is_over = true; });
    fit(loop, arguments, scaling, /*max_failures=*/0, debug_config);
  }
  return all.get();
}

}  // namespace paceline::benchmarks
