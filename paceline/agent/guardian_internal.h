// The guardian's own side: what the forked process does until its lease ends.
#pragma once

#include "paceline/core/posix/descriptor.h"

namespace paceline::agent {

/// Becomes the guardian. `lease` brings new connections and ends when the driver lets go of it; `driver` is a pidfd of
/// the driver, because a process that the driver forked may hold a copy of the lease's other end.
/// Call right after the fork, with all signals blocked.
[[noreturn]] void run_guardian(Descriptor lease, Descriptor driver);

}  // namespace paceline::agent
