// Puts this worker under gdb, which gets the terminal that the driver was started from. Not for users: they set
// DebugConfig.debug_rank, or `paceline run --debug-rank`.
#pragma once

namespace paceline::train {

/// Starts gdb on this process and returns when its user lets the process go on (`continue`) or leaves. When gdb ends,
/// the terminal's foreground is again whose it was. Call it once, from the thread of the train loop. UsageError when
/// there is no gdb in PATH, or no terminal.
void wait_for_debugger();

}  // namespace paceline::train
