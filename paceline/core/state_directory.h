// Where Paceline keeps what is the user's and no run's: the run store, working folders of runs on object stores.
#pragma once

#include <arrow/result.h>

#include <string>

namespace paceline {

/// `$PACELINE_STATE_DIR`, else `$XDG_STATE_HOME/paceline`, else `~/.local/state/paceline`; absolute, without a trailing
/// slash. Not made here. Variables that are empty or relative do not count, as the XDG specification wants it; a
/// relative PACELINE_STATE_DIR is Invalid, as is a user without a home.
arrow::Result<std::string> state_directory();

}  // namespace paceline
