// The kept checkpoints of a run as workers are told of them. Pure.
#pragma once

#include <string>

#include "paceline/policy/state.h"
#include "paceline/rpc/messages.h"

namespace paceline::controller {

/// The checkpoints of the run at `location`, the worst first; without a score the oldest.
rpc::CheckpointEntries checkpoint_list(const policy::RunState& state, const std::string& location);

}  // namespace paceline::controller
