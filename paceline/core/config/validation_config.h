// ValidationTaskConfig: what one validation of a checkpoint gets. For the whole run it is in ValidationConfig, for one
// checkpoint in ReportOptions.
#pragma once

#include "paceline/core/config/field.h"
#include "paceline/core/dictionary.h"

namespace paceline {

#define PACELINE_VALIDATION_TASK_CONFIG_FIELDS(FIELD)                                          \
  FIELD(::paceline::Config, config, {}, ::paceline::any_value(),                               \
        "Values for the validation function; those of a report override those of the trainer") \
  FIELD(std::optional<double>, timeout_s, std::nullopt, ::paceline::between(0, 1e9),           \
        "Seconds after which a validation is killed and counts as timed out; not set: no limit")
PACELINE_CONFIG(ValidationTaskConfig, PACELINE_VALIDATION_TASK_CONFIG_FIELDS);

}  // namespace paceline
