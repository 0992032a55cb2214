// The command line that other programs (ps, top) show for this process.
#pragma once

#include <arrow/status.h>

#include <string>

namespace paceline {

/// Puts `title` over the command line with which this process, or the one it was forked from, was started; what does
/// not fit is cut off. The arguments of main() are lost. From one thread at a time.
arrow::Status set_process_title(const std::string& title);

}  // namespace paceline
