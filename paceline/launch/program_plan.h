// ProgramPlan: how every rank of a launch is started; it travels to the program workers as the Welcome's configuration.
//
// The command does not: it is the worker's own command line (launch::worker_command()), which on several nodes is that
// of the worker's node.
#pragma once

#include "paceline/core/json.h"
#include "paceline/core/record.h"
#include "paceline/rpc/messages.h"

namespace paceline::launch {

// A program that `paceline run` starts on every rank.
#define PACELINE_PROGRAM_PLAN_FIELDS(FIELD)                                                                     \
  /* program, an absolute path, and arguments, where "${local_rank}" stands for the rank's */                   \
  FIELD(rpc::Strings, command, {})                                                                              \
  FIELD(std::string, role, "default") /* torchrun's name for what it starts */                                  \
  FIELD(std::string, run_id, "none")  /* torchrun's name for the whole */                                       \
  FIELD(int64_t, max_restarts, 0)                                                                               \
  FIELD(std::string, master_address, "127.0.0.1")                                                               \
  FIELD(int64_t, master_port, 0)         /* 0: any free port, another in each attempt */                        \
  FIELD(bool, virtual_local_rank, false) /* each rank sees only its own GPU, as its first */                    \
  /* of this launch: an earlier one with the same run name may have counted some */                             \
  FIELD(int64_t, first_attempt, 1)                                                                              \
  FIELD(std::string, python_folder, "")  /* what Python programs import first (python/start), "" for nothing */ \
  FIELD(int64_t, debug_rank, -1)         /* -1 for none */                                                      \
  FIELD(rpc::Strings, debug_command, {}) /* what stands before the command on that rank */
PACELINE_RECORD(ProgramPlan, PACELINE_PROGRAM_PLAN_FIELDS);

}  // namespace paceline::launch
