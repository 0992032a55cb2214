#include "paceline/train/train_loop.h"

#include <utility>
#include <vector>

namespace paceline {
namespace {

using Table = std::vector<std::pair<std::string, TrainLoop>>;

Table& table() {
  static Table loops;
  return loops;
}

}  // namespace

TrainLoop::TrainLoop(Plain function) noexcept
    : TrainLoop(function, [](Function loop, const Config&) {
        loop();
        return Json();
      }) {}

TrainLoop::TrainLoop(WithConfig function) noexcept
    : TrainLoop(reinterpret_cast<Function>(function), [](Function loop, const Config& config) {
        reinterpret_cast<WithConfig>(loop)(config);
        return Json();
      }) {}

TrainLoop::TrainLoop(Returning function) noexcept
    : TrainLoop(reinterpret_cast<Function>(function),
                [](Function loop, const Config&) { return reinterpret_cast<Returning>(loop)(); }) {}

TrainLoop::TrainLoop(ReturningWithConfig function) noexcept
    : TrainLoop(reinterpret_cast<Function>(function), [](Function loop, const Config& config) {
        return reinterpret_cast<ReturningWithConfig>(loop)(config);
      }) {}

void register_train_loop(const std::string& name, TrainLoop loop) {
  for (const auto& [known, other] : table()) {
    if (known == name && !(other == loop)) {
      throw ConfigError("two train loops are registered as \"" + name + "\"; give one of them another name");
    }
  }
  table().emplace_back(name, loop);
}

std::string train_loop_name(const TrainLoop& loop) {
  for (const auto& [name, known] : table()) {
    if (known == loop) return name;
  }
  throw UsageError(
      "the train loop given to TorchTrainer is not registered, so workers could not find it; write "
      "PACELINE_TRAIN_LOOP(your_function); at namespace scope, below the function");
}

TrainLoop find_train_loop(const std::string& name) {
  std::string names;
  for (const auto& [known, loop] : table()) {
    if (known == name) return loop;
    names += (names.empty() ? "" : ", ") + known;
  }
  throw UsageError("no train loop is registered as \"" + name +
                   "\" in this program; registered: " + (names.empty() ? "none" : names));
}

}  // namespace paceline
