// A tracker at the command of a Python test, which reads what it wrote with the real thing:
//
//     track_test_tracker CONFIG RUN MEMORY       (JSON each: TrackerConfig, {"name", "folder", "train_loop_config"},
//     any)
//
// Standard input has a command a line: {"begin": {"attempt", "resume_step", "time"}}, {"write": [{"step", "attempt",
// "time", "metrics"}]} or {"finish": {"state", "message", "time"}}; each is answered by {"error", "memory"}.
#include <iostream>
#include <string>

#include "paceline/core/error.h"
#include "paceline/track/tracker/tracker.h"

namespace paceline::track {
namespace {

arrow::Status execute(Tracker& tracker, const Json& command) {
  if (const auto begin = command.find("begin"); begin != command.end()) {
    return tracker.begin_attempt({.attempt = begin->value("attempt", int64_t{1}),
                                  .world_size = 2,
                                  .resume_step = begin->value("resume_step", int64_t{0}),
                                  .time = begin->value("time", 0.0)});
  }
  if (const auto finish = command.find("finish"); finish != command.end()) {
    return tracker.finish({.state = final_state_of(finish->value("state", "finished")).value(),
                           .message = finish->value("message", ""),
                           .time = finish->value("time", 0.0)});
  }
  std::vector<TrackedRow> rows;
  for (const Json& row : command.at("write")) {
    const auto step = row.at("step").get<int64_t>();
    rows.push_back({.step = step,
                    .report = step,
                    .attempt = row.value("attempt", int64_t{1}),
                    .time = row.value("time", 0.0),
                    .checkpoint = row.value("checkpoint", ""),
                    .metrics = flat_metrics(row.at("metrics"))});
  }
  return tracker.write(rows);
}

int run(const std::vector<std::string>& arguments) {
  const Json run = value_or_throw(decode_json(arguments.at(1)));
  const auto tracker = value_or_throw(
      make_tracker({.config = value_or_throw(decode_json(arguments.at(0))).get<TrackerConfig>(),
                    .run = {run.at("name"), run.at("folder"), run.value("train_loop_config", Json::object())},
                    .memory = value_or_throw(decode_json(arguments.at(2))),
                    .abandoned = {}}));
  for (std::string line; std::getline(std::cin, line);) {
    const arrow::Status status = execute(*tracker, value_or_throw(decode_json(line)));
    const Json answer = {{"error", status.ok() ? "" : status.ToString()}, {"memory", tracker->memory()}};
    std::cout << encode_json(answer) << std::endl;  // NOLINT(performance-avoid-endl): the test waits for it
  }
  return 0;
}

}  // namespace
}  // namespace paceline::track

int main(int count, char** arguments) {
  return paceline::track::run({arguments + 1, arguments + count});
}
