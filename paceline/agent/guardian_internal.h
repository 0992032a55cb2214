// The guardian's own side: what the forked process does until its lease ends.
#pragma once

#include <optional>

#include "paceline/agent/fork/forkable.h"
#include "paceline/core/posix/descriptor.h"

namespace paceline::agent {

/// Where the guardian has its descriptors, and where the program paceline_guardian expects them.
inline constexpr int kLease = 3;
inline constexpr int kDriver = 4;

/// Becomes the guardian. `lease` brings new connections and ends when the driver lets go of it; `driver` is a pidfd of
/// the driver, because a process that the driver forked may hold a copy of the lease's other end. Returns only in the
/// workers that it forks, which get the signals that `worker_signals` says; without it, it forks none.
/// Call right after the fork, with all signals blocked.
void run_guardian(Descriptor lease, Descriptor driver, const std::optional<SignalSetup>& worker_signals);

}  // namespace paceline::agent
