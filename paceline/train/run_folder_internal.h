// The run's folder before the run, with the public API's errors: where it is, and the lock. Not for users.
#pragma once

#include <string>

#include "paceline/core/config/run_config.h"
#include "paceline/run/run_place.h"
#include "paceline/storage/local/run_lock.h"

namespace paceline::train {

/// The place of the run in RunConfig.storage_path (run/run_place.h). ConfigError or StorageError naming
/// RunConfig.storage_path.
run::RunPlace prepare_run_place(const RunConfig& config);
/// UsageError naming the holder when another driver has the run; StorageError when the lock cannot be made.
storage::RunLock lock_run_folder(const std::string& folder);

}  // namespace paceline::train
