// ProcessEnd: all that is known of the end of a process: what the agent tells, the journal keeps and error texts
// explain.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/core/posix/exit_status.h"
#include "paceline/core/record.h"

namespace paceline {

// `last_lines`: the last that it wrote; `log_file` has all of them, "" for none. `step` and `phase` are the last that
// it noted of its progress. `memory` tells of a kill, `crash` of a crash.
#define PACELINE_PROCESS_END_FIELDS(FIELD)        \
  FIELD(ExitStatus, status, {})                   \
  FIELD(std::vector<std::string>, last_lines, {}) \
  FIELD(std::string, log_file, "")                \
  FIELD(int64_t, step, 0)                         \
  FIELD(std::string, phase, "")                   \
  FIELD(MemoryFacts, memory, {})                  \
  FIELD(std::optional<CrashFacts>, crash, {})
PACELINE_RECORD(ProcessEnd, PACELINE_PROCESS_END_FIELDS);

}  // namespace paceline
