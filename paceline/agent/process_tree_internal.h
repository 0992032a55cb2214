// What /proc says about threads of this process and about children of processes.
#pragma once

#include <arrow/result.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/posix/process_usage.h"

namespace paceline::agent {

/// The threads of this process but the calling one that may use the C library at any moment. Not among them: one that
/// has been joined but lingers in the kernel, and housekeeping threads that block every signal: the jemalloc inside
/// libarrow starts one when the library is loaded.
std::vector<pid_t> other_threads();
/// Those housekeeping threads.
std::vector<pid_t> housekeeping_threads();
/// How often housekeeping threads have gone to sleep, by thread; nothing when one is awake now. Equal at two moments:
/// none has run in between, and so none held a lock then.
std::optional<std::map<pid_t, int64_t>> sleeps_of_housekeeping();

/// The children of `pid` now, zombies included; empty when there is no such process. Exact for the calling process
/// itself while it has one thread and reaps nothing meanwhile; otherwise a snapshot.
std::vector<pid_t> children_of(pid_t pid);
/// The same by looking at every process: for kernels that do not list children.
std::vector<pid_t> children_by_parent(pid_t pid);

/// What the processes below `pid` use together, since the first of its children started. IOError when there are none.
arrow::Result<ProcessUsage> usage_below(pid_t pid);

/// The value of a variable in the environment with which `pid` was executed, "" for none.
std::string variable_of(pid_t pid, const std::string& name);

/// Sends SIGKILL to the process `pid` behind `pidfd`, its process group and everything below it, found through /proc.
/// For use by a process that is not its parent. Nothing happens when it has ended: its number may be another's by now.
void kill_tree_from_outside(pid_t pid, int pidfd);

}  // namespace paceline::agent
