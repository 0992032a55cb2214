// The checkpoints of a run, as `paceline checkpoint ls --json` and the dashboard list them.
#pragma once

#include <arrow/result.h>

#include <stop_token>
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

// What comparing all files of one with its manifest has found.
#define PACELINE_VERIFIED_CHECKPOINT_FIELDS(FIELD)                               \
  FIELD(std::string, name, "")                                                   \
  FIELD(bool, is_whole, false)                                                   \
  FIELD(std::string, problem, "") /* which file differs; "" where it is whole */ \
  FIELD(int64_t, bytes, 0)        /* that its manifest names */                  \
  FIELD(int64_t, files, 0)                                                       \
  FIELD(int64_t, tensors, 0)
PACELINE_RECORD(VerifiedCheckpoint, PACELINE_VERIFIED_CHECKPOINT_FIELDS);

/// Those of the run at a location, oldest first. Errors as checkpoint::Store::list().
arrow::Result<std::vector<ListedCheckpoint>> list_checkpoints(const storage::Location& location);

/// Reads all of the checkpoint in a folder, as the following.
arrow::Result<VerifiedCheckpoint> verify_checkpoint(const storage::Location& checkpoint,
                                                    const std::stop_token& given_up = {});
/// Reads all of the checkpoint in the folder `name` of the run at a location, which takes as long as that. Invalid for
/// what no checkpoint is called; KeyError where there is none; Cancelled soon after `given_up` says so. That it cannot
/// be read is an error too, and says nothing of it.
arrow::Result<VerifiedCheckpoint> verify_checkpoint(const storage::Location& location, const std::string& name,
                                                    const std::stop_token& given_up);

}  // namespace paceline::views
