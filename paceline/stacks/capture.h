// Takes a Snapshot of a running or stopped process from outside, with ptrace.
//
// Each thread is held for as long as it takes to copy its registers and its stack, one after the other: well below a
// millisecond. A process that was stopped (SIGSTOP) stays stopped. Needs the right to ptrace: root, the same user
// without Yama, or, with Yama's scope 1, an ancestor or whom the process has named (allow_capture()). Threading: all of
// a call on the calling thread, which must not have other children that it waits for; it blocks SIGCHLD meanwhile.
// Errors: IOError when there is no such process or it may not be traced, saying what to do. A thread that does not stop
// (it hangs in the kernel) or ends meanwhile has a `problem`.
#pragma once

#include <arrow/result.h>

#include <chrono>

#include "paceline/stacks/snapshot.h"

namespace paceline::stacks {

/// `patience`: for all threads together to stop.
arrow::Result<Snapshot> capture(pid_t pid, std::chrono::milliseconds patience = std::chrono::seconds(2));

/// Lets `tracer` and its descendants capture the calling process where Yama would refuse them. 0 lets nobody.
void allow_capture(pid_t tracer);

}  // namespace paceline::stacks
