// TorchTrainer: runs a train loop on a group of worker processes.
//
// Threading: fit() blocks; a process runs one fit() at a time. While it runs, one SIGINT (Ctrl-C) stops the run
// cleanly, and three stop it at once. SIGTERM works in the same way, except that a second one, a second or more after
// the first, stops the run at once; if the program handles SIGTERM itself, Paceline leaves that alone. fit() restores
// the previous handlers afterwards.
//
// num_workers = 0 runs the loop on the calling thread, for a debugger. The run folder has the same checkpoints, history
// and journal. If the loop fails, fit() throws TrainingFailedError and does not try again. `paceline stop` and
// `paceline stacks` do not reach such a run, and there are no worker logs: the loop writes where the program does. The
// process has RunConfig::worker_environment until fit() returns. threads_per_worker has an effect only if it is set; a
// warning names settings that have none here.
//
// A program that torchrun has started sets num_workers = 0 and joins torchrun's group with its variables (RANK,
// WORLD_SIZE, MASTER_ADDR, …). The run has rank 0's name, storage path and callbacks. Every rank's fit() returns the
// run's Result. Every report(), also without a checkpoint, is a collective. When one rank fails, each rank's fit()
// throws what that rank itself saw; restarting is torchrun's task. SIGTERM ends a rank as it would without fit(), so
// that torchrun need not wait.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "paceline/controller/callback.h"
#include "paceline/core/config/run_config.h"
#include "paceline/core/config/scaling_config.h"
#include "paceline/data/dataset/dataset.h"
#include "paceline/train/data/data_config.h"
#include "paceline/train/result.h"
#include "paceline/train/torch_config.h"
#include "paceline/train/train_loop.h"
#include "paceline/train/validation.h"

namespace paceline {

namespace train {
struct TrainingRun;
}

/// The parts of a run. Every field may be left out.
struct TorchTrainerOptions {
  /// Values for the train loop.
  Config train_loop_config = {};
  /// How many workers, and what each of them gets.
  ScalingConfig scaling_config = {};
  /// Name, storage path, failures, which checkpoints are kept.
  RunConfig run_config = {};
  /// How the workers' process group is made.
  TorchConfig torch_config = {};
  /// How reported checkpoints are validated in the background; ReportOptions::validation asks for a validation.
  std::optional<ValidationConfig> validation_config = std::nullopt;
  /// A new run starts from this checkpoint: get_checkpoint() returns it until the run has a checkpoint of its own. A
  /// run that has one already continues from its own, with a warning.
  std::optional<Checkpoint> resume_from_checkpoint = std::nullopt;
  /// Datasets by name; get_dataset_shard() returns a worker's share of one.
  std::map<std::string, data::Dataset> datasets = {};
  /// Which of them are split among the workers, and how; whether they go on after a restart where they were.
  DataConfig dataset_config = {};
};

/// Runs a train loop with Paceline's controller.
///
///     paceline::TorchTrainer trainer(train_loop, {.scaling_config = {.num_workers = 2}});
///     paceline::Result result = trainer.fit();
class TorchTrainer {
 public:
  /// Throws UsageError if `loop` is not registered with PACELINE_TRAIN_LOOP, or ValidationConfig::fn with
  /// PACELINE_VALIDATION; ConfigError for a value that is not allowed, or a dataset that cannot be sent to workers.
  ///
  /// If the compiler only says that no function matches, the name of a field may be misspelt. Put the type in front of
  /// the braces, as in `.scaling_config = ScalingConfig{.num_workers = 2}`: then the compiler names the field.
  explicit TorchTrainer(TrainLoop loop, TorchTrainerOptions options = {});  // a field misspelt? TorchTrainerOptions{…}

  /// Runs to the end. With the same name and storage path it continues an unfinished run; a finished run trains again,
  /// and everything earlier is kept. A run that was stopped returns with the state "aborted".
  ///
  /// Throws TrainingFailedError if the run fails. Before any worker starts it throws UsageError without
  /// paceline::init(), inside a train loop, or if another driver has the run; ConfigError for an invalid storage path;
  /// StorageError if the storage path cannot be written or resume_from_checkpoint is gone.
  Result fit();

 private:
  std::shared_ptr<const train::TrainingRun> run_;
};

}  // namespace paceline
