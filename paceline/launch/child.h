// The program that a rank runs: starting it, waiting for it, and ending the way it ended.
#pragma once

#include <arrow/result.h>
#include <sys/types.h>

#include "paceline/core/posix/descriptor.h"
#include "paceline/core/posix/exit_status.h"
#include "paceline/rpc/messages.h"

namespace paceline::launch {

/// Starts command[0], an absolute path, in this process's group, with its directory, streams and limits; signals are at
/// their defaults and none is blocked. `environment` replaces the whole environment. With `terminal` the three standard
/// streams are that terminal, whose foreground the group becomes. IOError naming the program, with the system's reason,
/// when it cannot be started.
arrow::Result<pid_t> start_child(const rpc::Strings& command, const rpc::StringMap& environment,
                                 const Descriptor& terminal = Descriptor());

/// Waits until the process has ended. Call once.
ExitStatus wait_for_child(pid_t child);

/// Ends this process as `status` says: with the same exit code, or by the same signal, so that whoever waits for it
/// sees how the program has ended. Leaves no core file.
[[noreturn]] void end_like(const ExitStatus& status);

}  // namespace paceline::launch
