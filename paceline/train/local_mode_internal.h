// num_workers = 0: the train loop runs in the calling process. Not for users.
//
// Under torchrun's variables (RANK, WORLD_SIZE, …) the process joins that group and every report is a meeting of its
// ranks; rank 0 writes history and checkpoints into the run folder, as the controller does for worker processes.
#pragma once

#include "paceline/core/config/run_config.h"
#include "paceline/core/config/scaling_config.h"
#include "paceline/train/torch_config.h"
#include "paceline/train/train_loop.h"

namespace paceline::train {

struct LocalRun {
  TrainLoop loop;
  Config train_loop_config;
  RunConfig run_config;
  ScalingConfig scaling_config;
  TorchConfig torch_config;
  std::string run_folder;
  std::string resume_from_checkpoint;
};

/// Whether torchrun's variables are set.
bool under_torchrun();

/// Runs the loop; what it throws passes through. Returns what it returned.
Json run_in_process(const LocalRun& run);

}  // namespace paceline::train
