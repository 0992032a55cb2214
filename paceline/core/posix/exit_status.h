// How a process ended, in a form that can travel and in words.
#pragma once

#include <string>

#include "paceline/core/record.h"

namespace paceline {

// exit_code: of a process that called exit. signal: that ended it, 0 if none. out_of_memory: the kernel's
// out-of-memory killer did it. ended_by_paceline: the agent sent the signal itself.
#define PACELINE_EXIT_STATUS_FIELDS(FIELD) \
  FIELD(int, exit_code, 0)                 \
  FIELD(int, signal, 0)                    \
  FIELD(bool, core_dumped, false)          \
  FIELD(bool, out_of_memory, false)        \
  FIELD(bool, ended_by_paceline, false)
PACELINE_RECORD(ExitStatus, PACELINE_EXIT_STATUS_FIELDS);

/// From what waitpid() gives for a process that has ended.
ExitStatus exit_status_from_wait(int wait_status);

/// "SIGSEGV", or "signal 77" for one without a name.
std::string signal_name(int signal);

/// "exited with code 3", "was killed by SIGKILL (out of memory)", "crashed with SIGSEGV (core dumped)".
std::string describe(const ExitStatus& status);

}  // namespace paceline
