// run_to_end: the controller of one run, from start to a final state.
//
// The shell around decide(): it owns the journal, the agents' channels, the store of the rendezvous, checkpoint
// publication and the terminal, feeds events to decide() and executes its actions.
// Threading: run_to_end() blocks the calling thread, which runs all decisions and callbacks. request_stop() may be
// called from any thread and from signal handlers.
#pragma once

#include <arrow/result.h>

#include <atomic>
#include <csignal>
#include <functional>
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
#include "paceline/core/posix/exit_status.h"
#include "paceline/policy/state.h"

namespace paceline::controller {

/// Takes a line that a rank (-1: not known yet) wrote to "stdout" or "stderr", in the terminal's place: true when it
/// has. Called on the controller's thread.
using TakeOutput = std::function<bool(int64_t rank, const std::string& stream, const std::string& line)>;

/// Everything that defines a run; validated by the trainer before.
struct RunRequest {
  std::string run_folder;  // absolute; exists and is locked by the caller
  std::string location;    // where users see the run: a URI, or "" for run_folder
  RunConfig run_config;    // name is set
  ScalingConfig scaling_config;
  Json torch_config = Json::object();
  /// Seconds that workers have to end by themselves after another's failure.
  double failure_grace_s = policy::RunOptions{}.failure_grace_s;
  /// What the worker processes are for: "worker" executes the train loop, "program" runs a program (paceline/launch).
  std::string role = "worker";
  std::string train_loop;
  Json train_loop_config = Json::object();
  /// What the workers' program needs beside that, as bytes that only it understands: Python's train loop.
  std::string attachment;
  /// Command line of a worker: the driver's own program and arguments.
  std::vector<std::string> program;
  /// Command line of a process from which workers are forked (agent/fork_server.h); empty: each is started by itself.
  std::vector<std::string> fork_server;
  /// Working directory of the workers: the driver's.
  std::string directory;
  /// Empty: all output goes to the terminal.
  TakeOutput take_output;
  /// The user's run store (track/run_store.h); "" for none.
  std::string run_store;
  /// Registered name of the function that validates checkpoints, "" for none; what it gets where a report says nothing
  /// else, and how many run at once.
  std::string validation_fn;
  ValidationTaskConfig validation_task;
  int64_t max_validations = 1;
  /// Path of a checkpoint that a new run starts from.
  std::optional<std::string> resume_from_checkpoint;
};

/// Where users see the run.
const std::string& location_of(const RunRequest& request);
/// Where the checkpoint with that folder's name is when it is published.
std::string checkpoint_location(const RunRequest& request, const std::string& name);

enum class FinalState { finished, errored, aborted };

struct RunOutcome {
  FinalState state = FinalState::finished;
  /// The whole message of a run that did not finish, as TrainingFailedError shows it.
  std::string error;
  /// Errors of the last attempt by rank.
  std::map<int64_t, std::string> worker_errors;
  /// How the process ended that failed first; not set when none did, or when its end was not what failed.
  std::optional<ExitStatus> first_failure;
  /// What rank 0's train loop returned.
  Json return_value = nullptr;
};

/// Asks a run to stop, from a signal handler or another thread. `stop` is cheap and async-signal-safe.
class StopSignal {
 public:
  StopSignal();
  /// First call: clean stop. Third call: the controller kills at once. `signal` is the one that asks, which programs
  /// under `paceline run` get too.
  void stop(int signal = SIGINT) noexcept;
  int descriptor() const { return event_.get(); }
  /// That of the last call; SIGINT while there was none.
  int signal() const noexcept { return signal_; }

 private:
  Descriptor event_;  // an eventfd
  std::atomic<int> signal_{SIGINT};
};

/// Runs to the end. A Status is returned only for what prevented the run from being journaled at all; failures of
/// workers, callbacks and storage are in the outcome.
arrow::Result<RunOutcome> run_to_end(const RunRequest& request, Launcher& launcher, const Clock& clock,
                                     StopSignal& stop);

}  // namespace paceline::controller
