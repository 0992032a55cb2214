// run_to_end: the controller of one run, from start to a final state.
//
// The shell around decide(): it owns the journal, the agents' channels, the store of the rendezvous, checkpoint
// publication and the terminal, feeds events to decide() and executes its actions.
// Threading: run_to_end() blocks the calling thread, which runs all decisions and callbacks. StopSignal may be used
// from any thread and from signal handlers.
#pragma once

#include <arrow/result.h>

#include <atomic>
#include <csignal>

#include "paceline/controller/launcher/launcher.h"
#include "paceline/controller/run_books.h"
#include "paceline/controller/run_request.h"
#include "paceline/core/clock.h"
#include "paceline/core/ending.h"
#include "paceline/core/posix/descriptor.h"

namespace paceline::controller {

/// Asks a run to stop, from a signal handler or another thread. `stop` is cheap and async-signal-safe.
class StopSignal {
 public:
  StopSignal();
  /// First call: clean stop. Third call: the controller kills at once. `signal` is the one that asks, which programs
  /// under `paceline run` get too.
  void stop(int signal = SIGINT) noexcept { stop(signal, 1); }
  /// What a signal's handler does: stop(). A second SIGTERM counts for the third: who sends it (Slurm, Kubernetes,
  /// systemd) sends SIGKILL next. Should the controller hang, in a user's callback or on a dead disk, the one that
  /// comes after the third ends this process as it would have without a handler; the guardian then ends the workers.
  void hear(int signal) noexcept;
  int descriptor() const { return event_.get(); }
  /// That of the last call; SIGINT while there was none.
  int signal() const noexcept { return signal_; }
  /// What it is as the end of a run: SIGTERM is `terminated`, every other an `interrupt`.
  StopCause cause() const noexcept { return signal_ == SIGTERM ? StopCause::terminated : StopCause::interrupt; }

 private:
  void stop(int signal, int times) noexcept;

  static constexpr int kHeard = 3;
  Descriptor event_;  // an eventfd
  std::atomic<int> heard_{0};
  std::atomic<int> signal_{SIGINT};
};

/// Runs to the end. A Status is returned only for what prevented the run from being journaled at all; failures of
/// workers, callbacks and storage are in the outcome.
arrow::Result<RunOutcome> run_to_end(const RunRequest& request, Launcher& launcher, const Clock& clock,
                                     StopSignal& stop);

}  // namespace paceline::controller
