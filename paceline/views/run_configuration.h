// What a run was opened with: the train loop's configuration, how many workers, which limits, as its journal has it.
#pragma once

#include <arrow/result.h>

#include <string>

#include "paceline/core/json.h"
#include "paceline/core/record.h"

namespace paceline::views {

#define PACELINE_RUN_CONFIGURATION_FIELDS(FIELD)                                                        \
  FIELD(double, opened, 0.0)                     /* by its last driver; seconds since the Unix epoch */ \
  FIELD(Json, options, Json::object())           /* as that journal has them; empty: not known */       \
  FIELD(Json, train_loop_config, Json::object()) /* as far as it is plain values */
PACELINE_RECORD(RunConfiguration, PACELINE_RUN_CONFIGURATION_FIELDS);

/// Of the last driver. A run whose folder is gone has none any more.
arrow::Result<RunConfiguration> run_configuration(const std::string& run_folder);

}  // namespace paceline::views
