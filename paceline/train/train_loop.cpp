#include "paceline/train/train_loop.h"

#include "paceline/core/registry.h"

namespace paceline {
namespace {

Registry<TrainLoop>& train_loops() {
  static Registry<TrainLoop> loops({"train loop", "the train loop given to TorchTrainer", "PACELINE_TRAIN_LOOP"});
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
  train_loops().add(name, loop);
}

std::string train_loop_name(const TrainLoop& loop) {
  return train_loops().name_of(loop);
}

TrainLoop find_train_loop(const std::string& name) {
  return train_loops().find(name);
}

}  // namespace paceline
