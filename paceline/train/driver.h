// The driver's side of a process: its command line, with which workers are started, and its guardian. Not for users:
// init() makes it for C++, the Python package for Python.
#pragma once

#include <string>
#include <vector>

#include "paceline/agent/guardian.h"
#include "paceline/train/start_method.h"

namespace paceline::train {

struct Driver {
  std::vector<std::string> program;      // absolute path of the program, then its arguments
  std::vector<std::string> fork_server;  // likewise, of the process that workers are forked from; empty for none
  agent::Guardian guardian;
  std::string paceline;  // absolute path of the program `paceline`; "": it is looked for in PATH
  StartMethod start;     // what the guardian can do; without `fork_server`
};

/// Makes `driver` the driver of this process, for good; one that is there already stays instead.
void become_driver(Driver driver);
bool is_driver();
/// UsageError before become_driver().
const Driver& driver();

}  // namespace paceline::train
