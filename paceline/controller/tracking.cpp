#include "paceline/controller/tracking.h"

#include <algorithm>

namespace paceline::controller {

using namespace policy;

track::TrackedRun tracked_run(const RunRequest& request) {
  return {.name = request.run_config.name.value_or(""),
          .folder = request.run_folder,
          .train_loop_config = request.train_loop_config};
}

track::AttemptStart attempt_start(const RunState& state, int64_t checkpoint, Time now) {
  track::AttemptStart start{.attempt = {.attempt = state.attempt.value,
                                        .world_size = state.world_size,
                                        .resume_step = checkpoint,
                                        .time = to_seconds(now)}};
  const auto kept = std::ranges::find(state.checkpoints, checkpoint, &KeptCheckpoint::report);
  if (kept != state.checkpoints.end()) start.resume_metrics = kept->metrics;
  return start;
}

track::TrackedEnd tracked_end(const RunState& state, Time now) {
  return {.state = to_string(state.state), .message = state.error, .time = to_seconds(now)};
}

}  // namespace paceline::controller
