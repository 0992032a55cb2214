// The messages by which a live run's status is watched: dashboard ⇄ controller, over the run's control socket.
//
// Changes are told, nobody asks for them: who watches keeps the connection, and its end is the end of the watch.
#pragma once

#include "paceline/rpc/messages.h"

namespace paceline::rpc {

// Answered at once with RunChanged, which has the whole status (controller/status.h), and then with what has become of
// it, for as long as the connection lives: `interval_s` apart at least, and at least each kLongestSilence, if only to
// say that nothing has.
#define PACELINE_WATCH_RUN_FIELDS(FIELD) FIELD(double, interval_s, 0.25)
PACELINE_MESSAGE(WatchRun, "watch_run", PACELINE_WATCH_RUN_FIELDS);

// Members of the status that are new or others than before, and names of those that are gone.
#define PACELINE_RUN_CHANGED_FIELDS(FIELD) \
  FIELD(Json, set, Json::object())         \
  FIELD(Strings, removed, {})
PACELINE_MESSAGE(RunChanged, "run_changed", PACELINE_RUN_CHANGED_FIELDS);

/// Seconds between two RunChanged at most, while the controller's thread is not in the user's code.
inline constexpr double kLongestSilence = 1.0;

/// Seconds that a driver has to answer a question; then its socket says what it is busy with, for it, and again and
/// again until it answers.
inline constexpr double kOwnAnswer = 1.0;

}  // namespace paceline::rpc
