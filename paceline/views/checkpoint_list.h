// The checkpoints of a run, as `paceline checkpoint ls --json` and the dashboard list them.
#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

#include "paceline/core/json.h"
#include "paceline/core/record.h"
#include "paceline/storage/location.h"

namespace paceline::views {

// One checkpoint; its manifest has been read, its files have not been verified.
#define PACELINE_LISTED_CHECKPOINT_FIELDS(FIELD)                         \
  FIELD(std::string, name, "") /* of its folder */                       \
  FIELD(std::string, path, "") /* a folder, or a URI without its keys */ \
  FIELD(int64_t, report, 0)                                              \
  FIELD(int64_t, attempt, 0)                                             \
  FIELD(int64_t, world_size, 0)                                          \
  FIELD(double, time, 0.0) /* seconds since the Unix epoch */            \
  FIELD(int64_t, bytes, 0)                                               \
  FIELD(int64_t, files, 0)                                               \
  FIELD(int64_t, tensors, 0)                                             \
  FIELD(Json, metrics, Json::object())
PACELINE_RECORD(ListedCheckpoint, PACELINE_LISTED_CHECKPOINT_FIELDS);

/// Those of the run at a location, oldest first. Errors as checkpoint::Store::list().
arrow::Result<std::vector<ListedCheckpoint>> list_checkpoints(const storage::Location& location);

}  // namespace paceline::views
