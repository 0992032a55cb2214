// How long the ranks' steps took over time, all ranks beside each other: who is slow stands out. From the samples of
// all nodes (node_samples.h). Thread-safe: no state.
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/core/node_sample.h"
#include "paceline/core/record.h"
#include "paceline/track/run_record.h"
#include "paceline/views/node_samples.h"

namespace paceline::views {

using StepTimeRows = std::vector<std::vector<MaybeNumber>>;

// Times are seconds since the Unix epoch.
#define PACELINE_STEP_TIMES_FIELDS(FIELD)                                                 \
  FIELD(double, first, 0.0)              /* when the run began, or, later, its samples */ \
  FIELD(double, last, 0.0)               /* now, or its end */                            \
  FIELD(double, seconds, 1.0)            /* that a point stands for */                    \
  FIELD(std::vector<double>, time, {})   /* at which each point begins */                 \
  FIELD(std::vector<int64_t>, ranks, {}) /* that were sampled, of all attempts */         \
  FIELD(StepTimeRows, step_s, {})        /* of each rank; null where it made no steps, or was not there */
PACELINE_RECORD(StepTimes, PACELINE_STEP_TIMES_FIELDS);

/// Where no part is chosen, of all the time until `now`.
StepTimes step_times(const track::RunRecord& record, const SampleRange& range, double now);

}  // namespace paceline::views
