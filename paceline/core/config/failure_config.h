// FailureConfig: how often a run restarts after failures, and how a dead worker is recognised.
#pragma once

#include "paceline/core/config/field.h"

namespace paceline {

#define PACELINE_FAILURE_CONFIG_FIELDS(FIELD)                                                               \
  FIELD(int64_t, max_failures, 0, ::paceline::at_least(-1),                                                 \
        "Restarts after a worker has failed, also by an exception of the train loop; -1: no limit")         \
  FIELD(int64_t, controller_failure_limit, -1, ::paceline::at_least(-1),                                    \
        "Restarts after a worker group could not be started; -1: no limit")                                 \
  FIELD(int64_t, max_preemption_failures, -1, ::paceline::at_least(-1),                                     \
        "Restarts after nodes were taken away as had been announced; -1: no limit")                         \
  FIELD(double, start_timeout_s, 60.0, ::paceline::between(0, 1e9),                                         \
        "Seconds within which every worker of a group must have joined")                                    \
  FIELD(double, heartbeat_timeout_s, 30.0, ::paceline::between(0, 1e9),                                     \
        "Seconds without a sign of life after which a worker counts as dead (stopped or frozen processes)") \
  FIELD(double, node_timeout_s, 8.0, ::paceline::between(0, 1e9),                                           \
        "Seconds without a sign of life after which another machine counts as lost, with its workers")      \
  FIELD(double, stop_grace_s, 5.0, ::paceline::from_to(0, 1e9),                                             \
        "Seconds that workers have to end by themselves when a run is stopped, before they are killed")
PACELINE_CONFIG(FailureConfig, PACELINE_FAILURE_CONFIG_FIELDS);

}  // namespace paceline
