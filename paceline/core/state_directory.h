// Where Paceline keeps what belongs to the user rather than to one run: the run store, and the working folders of runs
// on object stores.
#pragma once

#include <arrow/result.h>

#include <string>

namespace paceline {

/// `$HOME`, else the home folder of this process's user (cron and containers may set no HOME); "" if there is none.
std::string home_directory();

/// `$PACELINE_STATE_DIR`, else `$XDG_STATE_HOME/paceline`, else `~/.local/state/paceline`; absolute, without a trailing
/// slash. The directory is not created here. Empty and relative variables are ignored, as the XDG specification
/// requires; a relative PACELINE_STATE_DIR is Invalid, as is a user without a home.
arrow::Result<std::string> state_directory();

}  // namespace paceline
