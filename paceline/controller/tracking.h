// What trackers are told of a run, made from its state. Pure.
#pragma once

#include "paceline/controller/controller.h"
#include "paceline/core/clock.h"
#include "paceline/policy/state.h"
#include "paceline/track/tracker/tracker_feed.h"

namespace paceline::controller {

track::TrackedRun tracked_run(const RunRequest& request);
/// `checkpoint`: report whose checkpoint the attempt starts from, 0 for none of this run's.
track::AttemptStart attempt_start(const policy::RunState& state, int64_t checkpoint, Time now);
/// Of a state that is final.
track::TrackedEnd tracked_end(const policy::RunState& state, Time now);

}  // namespace paceline::controller
