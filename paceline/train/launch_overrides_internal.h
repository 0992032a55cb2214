// What `paceline run` has said in place of the program's own configuration. Not for users.
#pragma once

#include "paceline/core/config/launch_overrides.h"
#include "paceline/core/config/run_config.h"
#include "paceline/core/config/scaling_config.h"

namespace paceline::train {

/// Read from the environment at the first call, which takes the variable away: workers and other children do not see
/// it. Not thread-safe the first time: init() and the first trainer call it. UsageError when it makes no sense.
const LaunchOverrides& launch_overrides();

/// Puts them in place of what the program says.
void override_with(const LaunchOverrides& overrides, ScalingConfig& scaling, RunConfig& run);

}  // namespace paceline::train
