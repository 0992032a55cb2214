// What `paceline show` tells of a run: read from the run folder, so that it works while a run is live and after; from
// the run store when the folder is gone. A live run's controller adds where its workers are.
#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

#include "paceline/track/run_record.h"

namespace paceline::cli {

using AttemptRecords = std::vector<track::AttemptRecord>;

// `live`: a controller answers; `workers` is then its account of them (controller/status.h), else those of the last
// attempt. `gone`: the folder was deleted. `report`, `metrics`: the last that rank 0 made. `remark`: what is to be said
// of the driver of a run that is not over. `location`: the URI of a run in an object store, whose working folder on
// this machine is `path`; else the same as `path`. Times are seconds since the Unix epoch.
#define PACELINE_RUN_SUMMARY_FIELDS(FIELD)     \
  FIELD(std::string, name, "")                 \
  FIELD(std::string, path, "")                 \
  FIELD(std::string, location, "")             \
  FIELD(std::string, state, "")                \
  FIELD(bool, live, false)                     \
  FIELD(bool, gone, false)                     \
  FIELD(std::string, remark, "")               \
  FIELD(double, since, 0.0)                    \
  FIELD(double, created, 0.0)                  \
  FIELD(std::string, host, "")                 \
  FIELD(int64_t, pid, 0)                       \
  FIELD(AttemptRecords, attempts, {})          \
  FIELD(PublishedCheckpoints, checkpoints, {}) \
  FIELD(int64_t, report, 0)                    \
  FIELD(Json, metrics, Json::object())         \
  FIELD(Json, workers, Json::array())          \
  FIELD(std::string, error, "")
PACELINE_RECORD(RunSummary, PACELINE_RUN_SUMMARY_FIELDS);

RunSummary summary_of(const track::RunRecord& record);

/// Takes over what the live run's controller says of itself.
void add_live_status(const Json& status, RunSummary& run);

/// The summary in lines for readers.
std::string to_text(const RunSummary& run);

}  // namespace paceline::cli
