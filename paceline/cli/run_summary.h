// What `paceline show` tells of a run: read from the run folder, so that it works while a run is live and after; a live
// run's controller adds where its workers are.
#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

#include "paceline/controller/state.h"

namespace paceline::cli {

/// One attempt, as the journal tells it.
#define PACELINE_ATTEMPT_SUMMARY_FIELDS(FIELD) \
  FIELD(int64_t, attempt, 0)                   \
  FIELD(int64_t, world_size, 0)                \
  FIELD(double, start, 0.0)                    \
  FIELD(double, end, 0.0)                      \
  FIELD(std::string, failure, "")
PACELINE_RECORD(AttemptSummary, PACELINE_ATTEMPT_SUMMARY_FIELDS);

using AttemptSummaries = std::vector<AttemptSummary>;

// `live`: a controller answers; `workers` is then its account of them (controller/status.h). `report`, `metrics`: the
// last that rank 0 made. `remark`: why a live run's controller does not answer. Times are seconds since the Unix epoch.
#define PACELINE_RUN_SUMMARY_FIELDS(FIELD)                        \
  FIELD(std::string, name, "")                                    \
  FIELD(std::string, path, "")                                    \
  FIELD(std::string, state, "")                                   \
  FIELD(bool, live, false)                                        \
  FIELD(std::string, remark, "")                                  \
  FIELD(double, since, 0.0)                                       \
  FIELD(AttemptSummaries, attempts, {})                           \
  FIELD(std::vector<controller::KeptCheckpoint>, checkpoints, {}) \
  FIELD(int64_t, report, 0)                                       \
  FIELD(Json, metrics, Json::object())                            \
  FIELD(Json, workers, Json::array())                             \
  FIELD(std::string, error, "")
PACELINE_RECORD(RunSummary, PACELINE_RUN_SUMMARY_FIELDS);

/// IOError when the folder holds no run.
arrow::Result<RunSummary> read_run(const std::string& run_folder);

/// Whether the run has reached a final state.
bool is_over(const RunSummary& run);
/// Takes over what the live run's controller says of itself.
void add_live_status(const Json& status, RunSummary& run);

/// The summary in lines for readers.
std::string to_text(const RunSummary& run);

}  // namespace paceline::cli
