// One run as `paceline show` and the dashboard tell of it: its record, and what its live driver adds.
//
// Reads the run folder, and asks the driver of a run that is not over.
// Thread-safe: no state.
#pragma once

#include <arrow/result.h>

#include <chrono>
#include <functional>
#include <string>

#include "paceline/run/control_client.h"
#include "paceline/views/collectives_summary.h"
#include "paceline/views/run_summary.h"

namespace paceline::views {

/// What the driver of the live run in that folder says of it; errors as run::request_status().
using AskStatus = std::function<arrow::Result<Json>(const std::string& run_folder)>;

/// The summary of a run whose record has just been read. Its driver is asked by `ask`.
RunSummary shown_run(const track::RunRecord& record, const AskStatus& ask);
/// The same; a driver that does not answer costs `patience`.
RunSummary shown_run(const track::RunRecord& record, std::chrono::milliseconds patience = run::kAnswerTime);

/// The run's last collectives. A live run writes what its ranks have called so far first; of one that does not answer
/// these are those that were kept before. Where it has none, `ranks` is 0.
arrow::Result<CollectivesSummary> shown_collectives(const track::RunRow& run);

}  // namespace paceline::views
