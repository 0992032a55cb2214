#include "paceline/train/trainer.h"

#include "paceline/train/train_loop.h"
#include "paceline/train/training_run.h"

namespace paceline {
namespace {

// Marks every executable that has a trainer: `paceline run` starts it once, as the driver (launch/driver_note.cpp).
struct DriverNote {
  uint32_t owner_bytes;
  uint32_t content_bytes;
  uint32_t type;
  char owner[12];
};
[[gnu::section(".note.paceline"), gnu::used]] alignas(4) const DriverNote driver_note{9, 0, 1, "Paceline"};

}  // namespace

TorchTrainer::TorchTrainer(TrainLoop loop, TorchTrainerOptions options) {
  train::TrainingRun run;
  run.loop = loop;
  run.loop_name = train_loop_name(loop);
  run.train_loop_config = std::move(options.train_loop_config);
  run.scaling_config = std::move(options.scaling_config);
  run.run_config = std::move(options.run_config);
  run.torch_config = std::move(options.torch_config);
  if (const auto& validation = options.validation_config) {
    validation->validate();
    run.validation = validation->fn;
    run.validation_name = validation_name(validation->fn);
    run.validation_task = validation->task_config;
    run.max_validations = validation->max_in_flight;
  }
  run.resume_from_checkpoint = std::move(options.resume_from_checkpoint);
  train::prepare(run);
  run_ = std::make_shared<const train::TrainingRun>(std::move(run));
}

Result TorchTrainer::fit() {
  return train::fit(*run_);
}

}  // namespace paceline
