// How a process ended, in a form that can travel and in words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/record.h"

namespace paceline {

// How a process ended.
#define PACELINE_EXIT_STATUS_FIELDS(FIELD)                                             \
  FIELD(int, exit_code, 0) /* of a process that called exit */                         \
  FIELD(int, signal, 0)    /* that ended it, 0 if none */                              \
  FIELD(bool, core_dumped, false)                                                      \
  FIELD(bool, out_of_memory, false)     /* the kernel's out-of-memory killer did it */ \
  FIELD(bool, ended_by_paceline, false) /* the agent sent the signal itself */
PACELINE_RECORD(ExitStatus, PACELINE_EXIT_STATUS_FIELDS);

// What a process noted of its own crash.
#define PACELINE_CRASH_FACTS_FIELDS(FIELD)                                                                             \
  FIELD(int, code, 0)         /* si_code */                                                                            \
  FIELD(uint64_t, address, 0) /* si_addr */                                                                            \
  FIELD(uint64_t, stack_pointer, 0)                                                                                    \
  FIELD(std::string, place, "")               /* the mapping that holds the address: a file, "[stack]", "" for none */ \
  FIELD(std::string, thread, "")              /* the thread's name */                                                  \
  FIELD(std::string, what, "")                /* of the exception that std::terminate was called for */                \
  FIELD(std::vector<std::string>, frames, {}) /* the thread's stack in words, innermost first */
PACELINE_RECORD(CrashFacts, PACELINE_CRASH_FACTS_FIELDS);

// What is known of memory when a process was killed; 0 where it is not.
#define PACELINE_MEMORY_FACTS_FIELDS(FIELD)                                                  \
  FIELD(std::string, group, "")      /* the memory cgroup */                                 \
  FIELD(int64_t, limit_bytes, 0)     /* the group's */                                       \
  FIELD(int64_t, peak_bytes, 0)      /* the most that the process had resident */            \
  FIELD(int64_t, available_bytes, 0) /* of the machine, afterwards */                        \
  /* the out-of-memory killer was at work on the machine meanwhile, though not in `group` */ \
  FIELD(bool, host_kill, false)
PACELINE_RECORD(MemoryFacts, PACELINE_MEMORY_FACTS_FIELDS);

/// From what waitpid() gives for a process that has ended.
ExitStatus exit_status_from_wait(int wait_status);

/// "SIGSEGV", or "signal 77" for one without a name.
std::string signal_name(int signal);

/// "exited with code 3", "was killed by SIGKILL (out of memory)", "crashed with SIGSEGV (core dumped)".
std::string describe(const ExitStatus& status);

}  // namespace paceline
