// ProcessEnd: all that is known of the end of a process: what the agent tells, the journal keeps and error texts
// explain.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/core/posix/exit_status.h"
#include "paceline/core/progress.h"
#include "paceline/core/record.h"

namespace paceline {

// The end of a process.
#define PACELINE_PROCESS_END_FIELDS(FIELD)                                                             \
  FIELD(ExitStatus, status, {})                                                                        \
  FIELD(std::vector<std::string>, last_lines, {}) /* that it wrote */                                  \
  FIELD(std::string, log_file, "")                /* has all that it wrote, "" for none */             \
  FIELD(int64_t, step, 0)                         /* the last that it noted of its progress */         \
  FIELD(Phase, phase, Phase::unknown)             /* the last that it noted of its progress */         \
  FIELD(TimeSpent, spent, {})                                                                          \
  FIELD(bool, cut_off, false)                 /* it ended itself: its channel to the agent was gone */ \
  FIELD(MemoryFacts, memory, {})              /* of a kill */                                          \
  FIELD(std::optional<CrashFacts>, crash, {}) /* of a crash */
PACELINE_RECORD(ProcessEnd, PACELINE_PROCESS_END_FIELDS);

}  // namespace paceline
