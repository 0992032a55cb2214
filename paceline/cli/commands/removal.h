// Deleting runs, and which of many shall be deleted.
#pragma once

#include <arrow/status.h>

#include <optional>
#include <string>
#include <vector>

#include "paceline/cli/run_lookup.h"
#include "paceline/views/known_runs.h"

namespace paceline::cli {

/// Deletes the run's folder, whole or not at all for readers, and forgets the run. A folder that is gone is only
/// forgotten; of a link the link and what it leads to are deleted. AlreadyExists, naming the driver, for a live run.
arrow::Status remove_run(const FoundRun& run);

/// Which runs `prune` deletes: those that meet every criterion that is set. Live runs never, nor those whose driver is
/// on another machine.
struct PruneCriteria {
  std::optional<double> older_than_s;  // since the run reached its state
  bool failed = false;                 // errored, aborted, or its driver died
  bool gone = false;                   // without a folder
};

/// Pure.
std::vector<views::KnownRun> select_for_pruning(const std::vector<views::KnownRun>& runs, const PruneCriteria& criteria,
                                                double now);

/// "90s", "15min", "12h", "30d", "8w" in seconds; Invalid: no such thing.
arrow::Result<double> parse_age(const std::string& text);

}  // namespace paceline::cli
