// A run that is asked for profiles and stacks while it trains, as the command line asks, and when that was.
//
// The train loop calls begin_questions() when it is warm and goes on until are_answered(). Errors are exceptions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "measurement.h"

namespace paceline::benchmarks {

struct Question {
  std::string what;
  std::function<void(const std::string& run_folder)> ask;
};

/// A question is asked at `begin_ns` and answered at `end_ns`; from `free_since_ns` until it begins nothing is asked.
struct Asked {
  std::string what;
  int64_t free_since_ns = 0, begin_ns = 0, end_ns = 0;
};

/// For a profile of that kind (rpc/messages.h) and that many seconds; one in which nothing was seen is an error.
Question question_for_profile(std::string what, std::string kind, int64_t seconds);

void begin_questions(const Config& config);
/// Whether all questions have been answered, or one has failed.
bool are_answered(const Config& config);

/// Runs `loop` on workers, and meanwhile asks all questions as often as `arguments` has iterations, each after
/// `seconds` without any.
std::vector<Asked> fit_and_ask(TrainLoop loop, const Arguments& arguments, const ScalingConfig& scaling,
                               const DebugConfig& debug_config, int64_t seconds,
                               const std::vector<Question>& questions);

}  // namespace paceline::benchmarks
