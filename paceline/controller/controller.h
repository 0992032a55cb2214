// run_to_end: the controller of one run, from start to a final state.
//
// The shell around decide() for workers that are processes: a RunLoop (event_loop/) has the agents' channels
// and the store of the rendezvous, and makes events of what happens there; its RunBooks (run_books.h) hand them to
// decide(), execute its actions, and have journal, publisher and terminal. Threading: run_to_end() blocks the calling
// thread, which runs all decisions and callbacks. StopSignal may be called from any thread and from signal handlers.
#pragma once

#include <arrow/result.h>

#include "paceline/controller/launcher/launcher.h"
#include "paceline/controller/run_books.h"
#include "paceline/controller/run_request.h"
#include "paceline/controller/stop_signal.h"
#include "paceline/core/clock.h"

namespace paceline::controller {

/// Runs to the end. A Status is returned only for what prevented the run from being journaled at all; failures of
/// workers, callbacks and storage are in the outcome.
arrow::Result<RunOutcome> run_to_end(const RunRequest& request, Launcher& launcher, const Clock& clock,
                                     StopSignal& stop);

}  // namespace paceline::controller
