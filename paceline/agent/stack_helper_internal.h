// The guardian's helper that reads workers' stacks, of the living and of those that crashed: a process of its own, so
// that the guardian stays small and never waits, and so that a hang or a crash while reading other processes harms
// nobody.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "paceline/core/ids.h"
#include "paceline/core/posix/descriptor.h"

namespace paceline::agent {

/// Seconds after which the helper is ended by an alarm.
inline constexpr int kStackHelperSeconds = 30;

/// Forks the helper, which captures the processes, writes WorkerStacks as lines to `output` and ends. The guardian
/// reaps it. IOError when it cannot be forked. Only for a process with one thread.
arrow::Result<pid_t> fork_stack_helper(const std::vector<std::pair<WorkerId, pid_t>>& workers, Descriptor output);

/// Forks the helper, which names what is in the crash memory and writes one ProcessStacks to `output` as WorkerStacks.
arrow::Result<pid_t> fork_crash_helper(Descriptor memory, Descriptor output);

/// A worker whose profile is wanted. It samples itself into `memory`; without that, `problem` says why it does not, or,
/// if that is "", the processes below it are looked at: they run a program of the user's.
struct ProfiledWorker {
  WorkerId worker;
  pid_t pid = 0;
  Descriptor memory;
  std::string problem;
};

/// How long the helper that names profiles has after the sampling, in seconds.
inline constexpr int kProfileHelperSeconds = 60;

/// Forks the helper, which waits until the workers have sampled for so many seconds, has py-spy look at those that run
/// Python meanwhile, and writes their profiles (stacks/profile.h) as lines to `output`.
arrow::Result<pid_t> fork_profile_helper(std::vector<ProfiledWorker> workers, double seconds, double rate,
                                         Descriptor output);

/// Forks the helper, which looks for so many seconds where the threads of the workers and of what they have started
/// wait, with py-spy beside for those that run Python, and writes their profiles as lines to `output`.
arrow::Result<pid_t> fork_wait_helper(const std::vector<ProfiledWorker>& workers, double seconds, Descriptor output);

/// Forks the helper, which names what the heap profilers of those workers that have a memory have written there, and
/// writes their profiles as lines to `output`.
arrow::Result<pid_t> fork_heap_helper(std::vector<ProfiledWorker> workers, Descriptor output);

}  // namespace paceline::agent
