// The run's folder before the run: its name, where it is, and the lock. Not for users.
#pragma once

#include <string>

#include "paceline/core/config/run_config.h"
#include "paceline/storage/run_lock.h"

namespace paceline::train {

/// "run_2026-11-21_08-05-09_4f3a91c2": unique between processes that start within one second.
std::string new_run_name();
/// Makes the folder `storage_path/name`, in which can be written, and gives its absolute path. ConfigError or
/// StorageError naming RunConfig.storage_path.
std::string prepare_run_folder(const RunConfig& config);
/// UsageError naming the holder when another driver has the run; StorageError when the lock cannot be made.
storage::RunLock lock_run_folder(const std::string& folder);

}  // namespace paceline::train
