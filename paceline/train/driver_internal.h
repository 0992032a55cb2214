// What init() left for fit(): the program's command line and the guardian. Not for users.
#pragma once

#include <string>
#include <vector>

#include "paceline/agent/guardian.h"

namespace paceline::train {

struct Driver {
  std::vector<std::string> program;  // absolute path of the program, then its arguments
  agent::Guardian guardian;
};

/// UsageError before init().
const Driver& driver();

}  // namespace paceline::train
