// The logs of a run's workers, and how many of them are kept.
#pragma once

#include <arrow/result.h>

#include <string>

#include "paceline/core/config/run_config.h"
#include "paceline/core/ids.h"

namespace paceline::run {

/// How a worker's log is kept within RunConfig's limits.
struct LogLimit {
  int64_t file_bytes = 0;
  int64_t files = 1;
};
LogLimit log_limit(const RunConfig& config);

/// Deletes logs of workers before `first`, those of the lowest ids first, until at most `most_bytes` of them are left.
/// IOError when the folder of the logs cannot be read.
arrow::Status trim_worker_logs(const std::string& run_folder, WorkerId first, int64_t most_bytes);

}  // namespace paceline::run
