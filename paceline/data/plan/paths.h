// The paths of a plan's files, before anything is read of them.
//
// No state; any thread may call these.
#pragma once

#include <arrow/status.h>

#include <string>
#include <vector>

#include "paceline/data/plan/plan.h"

namespace paceline::data {

/// The paths that the plan reads, each once, sorted, without keys.
std::vector<std::string> input_files(const Plan& plan);

/// IOError where the plan reads a path that does not exist, so that a typing error costs no start of processes. What
/// local folders and globs have is listed; of object stores, where that may take long, some paths are asked for, but
/// no globs. Files may still turn out to be others than they should be when they are read.
arrow::Status check_paths(const Plan& plan);

}  // namespace paceline::data
