// PublishedCheckpoint: what is known of a published checkpoint, for all who speak of one: the journal, the run store,
// messages to workers, the command line. Plain data. Where it is follows from the run's location and its name.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/record.h"

namespace paceline {

/// How far a published checkpoint has come.
enum class CheckpointStatus {
  committed,           // nobody asked for a validation
  pending_validation,  // it waits, or is being validated
  validated,           // what the validation gave is among its metrics
  validation_timeout,
  validation_failed
};
NLOHMANN_JSON_SERIALIZE_ENUM(CheckpointStatus, {{CheckpointStatus::committed, "committed"},
                                                {CheckpointStatus::pending_validation, "pending_validation"},
                                                {CheckpointStatus::validated, "validated"},
                                                {CheckpointStatus::validation_timeout, "validation_timeout"},
                                                {CheckpointStatus::validation_failed, "validation_failed"}})

// A published checkpoint.
#define PACELINE_PUBLISHED_CHECKPOINT_FIELDS(FIELD)                \
  FIELD(int64_t, report, 0) /* the number of its report, from 1 */ \
  /* of its folder, "" for the one made of the report's number */  \
  FIELD(std::string, name, "")                                     \
  /* rank 0's, of that report, with those of its validation */     \
  FIELD(nlohmann::json, metrics, nlohmann::json::object())         \
  /* when it was published, in seconds since the Unix epoch */     \
  FIELD(double, time, 0.0)                                         \
  FIELD(CheckpointStatus, status, CheckpointStatus::committed)
PACELINE_RECORD(PublishedCheckpoint, PACELINE_PUBLISHED_CHECKPOINT_FIELDS);
using PublishedCheckpoints = std::vector<PublishedCheckpoint>;

}  // namespace paceline
