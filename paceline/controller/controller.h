// run_to_end: the controller of one run, from start to a final state.
//
// The shell around decide(): it owns the journal, the agents' channels, the store of the rendezvous, checkpoint
// publication and the terminal, feeds events to decide() and executes its actions.
// Threading: run_to_end() blocks the calling thread, which runs all decisions and callbacks. StopSignal may be used
// from any thread and from signal handlers.
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
