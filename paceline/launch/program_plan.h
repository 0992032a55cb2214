// ProgramPlan: what every rank of a launch starts; it travels to the program workers as the Welcome's configuration.
#pragma once

#include "paceline/core/json.h"
#include "paceline/core/record.h"
#include "paceline/rpc/messages.h"

namespace paceline::launch {

// command: program and arguments; the program is an absolute path, "${local_rank}" in an argument stands for the
// rank's. role, run_id: torchrun's names for what it starts, and for the whole. master_port 0: any free port, another
// in each attempt. virtual_local_rank: each rank sees only its own GPU, as its first. first_attempt: of this launch; an
// earlier one with the same run name may have counted attempts already. python_folder: what Python programs import
// first (python/start), "" for nothing. debugger: what stands before the command on the rank `debug_rank`, -1 for none.
#define PACELINE_PROGRAM_PLAN_FIELDS(FIELD)       \
  FIELD(rpc::Strings, command, {})                \
  FIELD(std::string, role, "default")             \
  FIELD(std::string, run_id, "none")              \
  FIELD(int64_t, max_restarts, 0)                 \
  FIELD(std::string, master_address, "127.0.0.1") \
  FIELD(int64_t, master_port, 0)                  \
  FIELD(bool, virtual_local_rank, false)          \
  FIELD(int64_t, first_attempt, 1)                \
  FIELD(std::string, python_folder, "")           \
  FIELD(int64_t, debug_rank, -1)                  \
  FIELD(rpc::Strings, debug_command, {})
PACELINE_RECORD(ProgramPlan, PACELINE_PROGRAM_PLAN_FIELDS);

}  // namespace paceline::launch
