// TorchTrainer: runs a train loop on a group of worker processes.
//
// Threading: fit() blocks; one fit() at a time in a process. While it runs, SIGINT (Ctrl-C) once stops the run cleanly,
// three times at once; SIGTERM does so too, the second one at once, unless the program handles it itself. The former
// handlers are restored afterwards.
//
// num_workers = 0 runs the loop on the calling thread, for a debugger. The run folder has the same checkpoints,
// history and journal; a failed loop throws TrainingFailedError from fit() and is not tried again, `paceline stop` and
// `paceline stacks` do not reach it, and there are no worker logs: the loop writes where the program does. The process
// has RunConfig::worker_environment until fit() returns. threads_per_worker counts only when it is set; settings that
// mean nothing here are named in a warning.
// A program that torchrun has started sets num_workers = 0 and joins torchrun's group with its variables (RANK,
// WORLD_SIZE, MASTER_ADDR, …): rank 0's name, storage path and callbacks are the run's, every rank's fit() returns the
// run's Result, and every report(), also without a checkpoint, is a meeting of all ranks. When one rank fails, each
// rank's fit() throws what it saw itself; starting again is torchrun's affair. SIGTERM ends a rank as it would without
// fit(), so that torchrun need not wait.
#pragma once

#include <memory>
#include <optional>

#include "paceline/controller/callback.h"
#include "paceline/core/config/run_config.h"
#include "paceline/core/config/scaling_config.h"
#include "paceline/train/result.h"
#include "paceline/train/torch_config.h"
#include "paceline/train/train_loop.h"
#include "paceline/train/validation.h"

namespace paceline {

namespace train {
struct TrainingRun;
}

/// What a run is made of. Every field may be left out.
struct TorchTrainerOptions {
  /// Handed to the train loop.
  Config train_loop_config = {};
  /// How many workers, and what each of them gets.
  ScalingConfig scaling_config = {};
  /// Name, storage path, failures, what is kept.
  RunConfig run_config = {};
  /// How the workers meet.
  TorchConfig torch_config = {};
  /// How reported checkpoints are validated on the side; a report asks for it by ReportOptions::validation.
  std::optional<ValidationConfig> validation_config = std::nullopt;
  /// A new run starts from this checkpoint: get_checkpoint() gives it until the run has one of its own. A run that has
  /// one already goes on from its own, with a warning.
  std::optional<Checkpoint> resume_from_checkpoint = std::nullopt;
};

/// Runs a train loop with Paceline's controller.
///
///     paceline::TorchTrainer trainer(train_loop, {.scaling_config = {.num_workers = 2}});
///     paceline::Result result = trainer.fit();
class TorchTrainer {
 public:
  /// UsageError when `loop` is not registered with PACELINE_TRAIN_LOOP, or ValidationConfig::fn not with
  /// PACELINE_VALIDATION; ConfigError for a value that is not allowed.
  ///
  /// Where the compiler only says that no function matches, a field may be misspelt: with the type in front of the
  /// braces, as in `.scaling_config = ScalingConfig{.num_workers = 2}`, it names the field.
  explicit TorchTrainer(TrainLoop loop, TorchTrainerOptions options = {});  // a field misspelt? TorchTrainerOptions{…}

  /// Runs to the end. The same name and storage path continues an unfinished run; a finished one trains again, with
  /// everything earlier kept. A run that was stopped returns with the state "aborted".
  /// Throws TrainingFailedError when the run fails; before any worker starts UsageError without paceline::init(),
  /// inside a train loop or when another driver has the run, ConfigError for a storage path that makes no sense, and
  /// StorageError when it cannot be written or resume_from_checkpoint is gone.
  Result fit();

 private:
  std::shared_ptr<const train::TrainingRun> run_;
};

}  // namespace paceline
