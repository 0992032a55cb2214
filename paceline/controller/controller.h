// run_to_end: the controller of one run, from start to a final state.
//
// The shell around decide(): it owns the journal, the agents' channels, the store of the rendezvous, checkpoint
// publication and the terminal, feeds events to decide() and executes its actions.
// Threading: run_to_end() blocks the calling thread, which runs all decisions and callbacks. request_stop() may be
// called from any thread and from signal handlers.
#pragma once

#include <arrow/result.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/controller/callback.h"
#include "paceline/controller/launcher/launcher.h"
#include "paceline/core/clock.h"
#include "paceline/core/config/run_config.h"
#include "paceline/core/config/scaling_config.h"
#include "paceline/core/posix/descriptor.h"

namespace paceline::controller {

/// Everything that defines a run; validated by the trainer before.
struct RunRequest {
  std::string run_folder;  // absolute; exists and is locked by the caller
  RunConfig run_config;    // name is set
  ScalingConfig scaling_config;
  Json torch_config = Json::object();
  std::string train_loop;
  Json train_loop_config = Json::object();
  /// Command line of a worker: the driver's own program and arguments.
  std::vector<std::string> program;
  /// Working directory of the workers: the driver's.
  std::string directory;
  /// Path of a checkpoint that a new run starts from.
  std::optional<std::string> resume_from_checkpoint;
};

enum class FinalState { finished, errored, aborted };

struct RunOutcome {
  FinalState state = FinalState::finished;
  /// The whole message of a run that did not finish, as TrainingFailedError shows it.
  std::string error;
  /// Errors of the last attempt by rank.
  std::map<int64_t, std::string> worker_errors;
  /// What rank 0's train loop returned.
  Json return_value = nullptr;
};

/// Asks a run to stop, from a signal handler or another thread. `stop` is cheap and async-signal-safe.
class StopSignal {
 public:
  StopSignal();
  /// First call: clean stop. Third call: the controller kills at once.
  void stop() noexcept;
  int descriptor() const { return event_.get(); }

 private:
  Descriptor event_;  // an eventfd
};

/// Runs to the end. A Status is returned only for what prevented the run from being journaled at all; failures of
/// workers, callbacks and storage are in the outcome.
arrow::Result<RunOutcome> run_to_end(const RunRequest& request, Launcher& launcher, const Clock& clock,
                                     StopSignal& stop);

}  // namespace paceline::controller
