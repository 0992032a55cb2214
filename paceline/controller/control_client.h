// The command line's side of a live run's control socket.
//
// Errors: IOError "no live run in …" when nobody listens, or when the run ends while it is asked.
#pragma once

#include <arrow/result.h>

#include <string>

#include "paceline/core/json.h"

namespace paceline::controller {

/// The status of the run that is live in the folder, as status.h describes it.
arrow::Result<Json> request_status(const std::string& run_folder);
/// Asks the live run to stop; gives its status after that. A third request kills the workers.
arrow::Result<Json> request_stop(const std::string& run_folder, const std::string& reason);

}  // namespace paceline::controller
