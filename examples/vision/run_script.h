// Runs the scripts of tools/ that fetch datasets.
#pragma once

#include <string>
#include <vector>

/// Runs `script` (relative to the source folder), whose output goes to this program's, and waits for its end. If it
/// fails, throws paceline::StorageError, which refers to that output. Thread-safe.
///
///     run_script("tools/fetch_cifar10", {"./data"});
void run_script(const std::string& script, std::vector<std::string> arguments);
