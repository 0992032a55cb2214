// num_workers = 0: the train loop runs in the calling process. Not for users.
//
// Under torchrun's variables (RANK, WORLD_SIZE, …) the process joins that group, and every report is a meeting of its
// ranks; rank 0 has the controller (in_process_controller_internal.h), and its run's name and folder are everybody's.
#pragma once

#include <string>

#include "paceline/controller/controller.h"
#include "paceline/train/training_run.h"

namespace paceline::train {

struct LocalOutcome {
  storage::Location location;  // of the run
  FinalState state = FinalState::finished;
  /// The whole message of a run that did not finish.
  std::string error;
};

/// Whether torchrun's variables are set.
bool under_torchrun();
/// Workers of this machine that torchrun has started; 1 without torchrun.
int64_t torchrun_local_world_size();

/// Runs the loop to its end, from the checkpoint at `start_from` ("" for none); what it throws is in the outcome.
/// Throws only for what kept it from beginning; a run folder that cannot be written is in the outcome too.
LocalOutcome run_in_process(const TrainingRun& run, const storage::Location& start_from, controller::StopSignal& stop);

}  // namespace paceline::train
