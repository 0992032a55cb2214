// CheckpointConfig: which checkpoints of a run are kept.
#pragma once

#include "paceline/core/config/field.h"

namespace paceline {

#define PACELINE_CHECKPOINT_CONFIG_FIELDS(FIELD)                                                         \
  FIELD(std::optional<int64_t>, num_to_keep, std::nullopt, ::paceline::at_least(1),                      \
        "Number of checkpoints that are kept: the best, and always the latest; not set: all")            \
  FIELD(std::optional<std::string>, checkpoint_score_attribute, std::nullopt, ::paceline::any_value(),   \
        "Metric that ranks checkpoints, nested names separated by '/'; not set: the newest is the best") \
  FIELD(std::string, checkpoint_score_order, "max", ::paceline::one_of({"max", "min"}),                  \
        "Whether a high or a low score is better")
PACELINE_CONFIG(CheckpointConfig, PACELINE_CHECKPOINT_CONFIG_FIELDS);

}  // namespace paceline
