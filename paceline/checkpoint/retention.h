// Which checkpoints stay: a pure function.
//
// Order: NaN < -infinity < … < infinity; a missing or non-numeric score counts as -infinity; ties go to the newer.
// With order "min" scores are compared the other way, NaN and missing stay worst. The latest is never deleted.
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/core/config/checkpoint_config.h"

namespace paceline::checkpoint {

/// A checkpoint by its report's number, with its metrics. `pinned`: it is not deleted now, whatever its score.
struct Scored {
  int64_t report = 0;
  Json metrics = Json::object();
  bool pinned = false;
};

/// Best first.
std::vector<int64_t> rank_checkpoints(const std::vector<Scored>& checkpoints, const CheckpointConfig& config);
/// What retention deletes now, oldest first.
std::vector<int64_t> superseded(const std::vector<Scored>& checkpoints, const CheckpointConfig& config);

}  // namespace paceline::checkpoint
