// Named places where a test makes a process fail: kill it, stop it, or let a call return an error.
//
// PACELINE_FAIL_POINTS="publish.before_rename=kill, stage.write=error@3" : "stage.write" returns an IOError the third
// time it is passed; without @N the first time, with @* every time. "exit" ends the process without a signal. "stop"
// halts the process (SIGSTOP), as a storage that hangs does, until it gets SIGCONT; "hang" halts the calling thread for
// ever, as a disk that hangs does. Passing costs one branch when the variable is not set. Thread-safe.
#pragma once

#include <arrow/status.h>

#include <string_view>

namespace paceline {

/// OK, or what the environment asks for at `name`: IOError, SIGSTOP to this process and then OK, or no return.
arrow::Status fail_point(std::string_view name);

}  // namespace paceline
