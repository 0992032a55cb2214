// CheckpointConfig: which checkpoints of a run stay.
#pragma once

#include "paceline/core/config/field.h"

namespace paceline {

#define PACELINE_CHECKPOINT_CONFIG_FIELDS(FIELD)                                                       \
  FIELD(std::optional<int64_t>, num_to_keep, std::nullopt, ::paceline::at_least(1),                    \
        "Checkpoints that stay; the latest always stays beside the best; not set keeps all")           \
  FIELD(std::optional<std::string>, checkpoint_score_attribute, std::nullopt, ::paceline::any_value(), \
        "Metric that orders checkpoints, nested names separated by '/'; not set: the newest are best") \
  FIELD(std::string, checkpoint_score_order, "max", ::paceline::one_of({"max", "min"}),                \
        "Whether a high or a low score is better")
PACELINE_CONFIG(CheckpointConfig, PACELINE_CHECKPOINT_CONFIG_FIELDS);

}  // namespace paceline
