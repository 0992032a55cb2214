// Which checkpoints stay: a pure function.
//
// Scores are score_of() the metric (core/metric_values.h). Order: NaN < -infinity < … < infinity; a missing score, and
// one that is no number, counts as -infinity; ties go to the newer. With order "min" scores are compared the other way,
// NaN and missing stay worst. The latest is never deleted.
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/core/config/checkpoint_config.h"
#include "paceline/core/published_checkpoint.h"

namespace paceline::checkpoint {

/// By their scores; without a score the oldest is the worst.
PublishedCheckpoints worst_first(PublishedCheckpoints checkpoints, const CheckpointConfig& config);
/// Whether its metrics have checkpoint_score_attribute, but not as a number: it ranks as if they had not.
bool has_unusable_score(const PublishedCheckpoint& checkpoint, const CheckpointConfig& config);
/// The reports whose checkpoints retention deletes now, oldest first: of none that is to be validated, which may turn
/// out to be the best.
std::vector<int64_t> superseded(const PublishedCheckpoints& checkpoints, const CheckpointConfig& config);

}  // namespace paceline::checkpoint
