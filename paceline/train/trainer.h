// TorchTrainer: runs a train loop on a group of worker processes.
//
// Threading: fit() blocks; one fit() at a time in a process. While it runs, SIGINT (Ctrl-C) once stops the run cleanly,
// three times at once; the former handler is restored afterwards.
#pragma once

#include <optional>
#include <string>

#include "paceline/controller/callback.h"
#include "paceline/core/config/run_config.h"
#include "paceline/core/config/scaling_config.h"
#include "paceline/train/result.h"
#include "paceline/train/torch_config.h"
#include "paceline/train/train_loop.h"

namespace paceline {

struct TorchTrainerOptions {
  /// Handed to the train loop.
  Config train_loop_config = {};
  ScalingConfig scaling_config = {};
  RunConfig run_config = {};
  TorchConfig torch_config = {};
  /// A new run starts from this checkpoint: get_checkpoint() gives it until the run has one of its own.
  std::optional<Checkpoint> resume_from_checkpoint = std::nullopt;
};

/// Runs a train loop with Paceline's controller.
///
///     paceline::TorchTrainer trainer(train_loop, {.scaling_config = {.num_workers = 2}});
///     paceline::Result result = trainer.fit();
class TorchTrainer {
 public:
  /// UsageError when `loop` is not registered with PACELINE_TRAIN_LOOP; ConfigError for a value that is not allowed.
  TorchTrainer(TrainLoop loop, TorchTrainerOptions options = {});

  /// Runs to the end. The same name and storage path continues an unfinished run; a finished one trains again, with
  /// everything earlier kept. Throws TrainingFailedError when the run fails, UsageError before paceline::init(), and
  /// ConfigError or StorageError before any worker starts when the set-up cannot work.
  Result fit();

 private:
  TrainLoop loop_;
  std::string loop_name_;
  TorchTrainerOptions options_;
};

}  // namespace paceline
