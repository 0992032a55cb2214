// decide: all policy of a run, as a pure function of state, event and time.
//
// No clock, no thread, no socket, no file: the shell journals the event, calls decide() and executes the actions.
// docs/architecture/run_states.md draws the states, the budgets and what each event does. Every event costs O(log n) in
// the number of workers, except those that concern the whole group.
#pragma once

#include <optional>
#include <string>

#include "paceline/core/clock.h"
#include "paceline/policy/action.h"
#include "paceline/policy/event.h"
#include "paceline/policy/state.h"

namespace paceline::policy {

/// Seconds in which the cause of a collateral failure must show before the failure counts by itself.
inline constexpr double kCauseSeconds = 1.0;
/// Seconds beyond the grace after which a process that cannot be killed is given up.
inline constexpr double kEndPatienceSeconds = 20.0;
/// How often in a row processes may end by themselves in the same way before any has entered its train loop.
inline constexpr int64_t kSameExits = 3;
/// How often in a row a start may fail of anything else that is the same: about 13 seconds with the back-off.
inline constexpr int64_t kSameStarts = 8;

/// Seconds to wait before the try that follows the n-th failure in a row: 0, 0.1, 0.2, 0.4, … at most 30.
double back_off_seconds(int64_t failures_in_a_row);

/// When a run has used up RunConfig.max_time, and the reason for stopping it then.
struct TimeLimit {
  Time at;
  std::string reason;
};
/// Nothing for a run without limit, and one that is ending.
std::optional<TimeLimit> time_limit(const RunState& state);

/// Applies `event` to `state` and gives what is to be done, in order.
Actions decide(RunState& state, const Event& event, Time now);

}  // namespace paceline::policy
