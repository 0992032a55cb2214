#include "paceline/train/trainer.h"

#include "paceline/core/error.h"
#include "paceline/data/plan/paths.h"
#include "paceline/train/data/dataset_shards.h"
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

std::string encoded(const TorchTrainerOptions& options) {
  options.dataset_config.validate();
  options.dataset_config.execution_options.validate("DataConfig.execution_options");
  train::RunDatasets datasets{.plans = {}, .config = options.dataset_config};
  for (const auto& [name, dataset] : options.datasets) datasets.plans.emplace(name, dataset.plan());
  for (const std::string& name : options.dataset_config.datasets_to_split.value_or(DatasetNames())) {
    if (datasets.plans.contains(name)) continue;
    throw ConfigError("DataConfig.datasets_to_split names \"" + name + "\", which is none of the trainer's datasets");
  }
  for (const auto& [name, word] : options.dataset_config.equal_by_name) {
    if (!datasets.plans.contains(name)) {
      throw ConfigError("DataConfig.equal_by_name names \"" + name + "\", which is none of the trainer's datasets");
    }
    DataConfig{.equal = word}.validate();
  }
  return train::encode_datasets(datasets);
}

}  // namespace

TorchTrainer::TorchTrainer(TrainLoop loop, TorchTrainerOptions options) {
  train::TrainingRun run;
  const auto datasets = std::make_shared<const std::string>(encoded(options));
  run.loop = [loop, datasets](const Config& config) {
    train::offer_datasets(*datasets);
    return loop(config);
  };
  run.attachment = *datasets;  // which the loop holds
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
  run.has_datasets = !datasets->empty() && run.scaling_config.num_workers.max != 0;
  run_ = std::make_shared<const train::TrainingRun>(std::move(run));
}

Result TorchTrainer::fit() {
  for (const auto& [name, plan] : train::decode_datasets(run_->attachment).plans) {
    const arrow::Status found = data::check_paths(plan);
    if (!found.ok()) throw ConfigError("TorchTrainerOptions.datasets: \"" + name + "\": " + found.message());
  }
  return train::fit(*run_);
}

}  // namespace paceline
