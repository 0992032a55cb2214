// How a process ended, in a form that can travel and in words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/record.h"

namespace paceline {

// exit_code: of a process that called exit. signal: that ended it, 0 if none. out_of_memory: the kernel's
// out-of-memory killer did it. ended_by_paceline: the agent sent the signal itself.
#define PACELINE_EXIT_STATUS_FIELDS(FIELD) \
  FIELD(int, exit_code, 0)                 \
  FIELD(int, signal, 0)                    \
  FIELD(bool, core_dumped, false)          \
  FIELD(bool, out_of_memory, false)        \
  FIELD(bool, ended_by_paceline, false)
PACELINE_RECORD(ExitStatus, PACELINE_EXIT_STATUS_FIELDS);

// What a process noted of its own crash. `code` and `address` are si_code and si_addr; `place` is the mapping that
// holds the address: a file, "[stack]", "" for none. `thread`: the name of the thread. `what`: of the exception that
// std::terminate was called for. `frames`: the thread's stack in words, innermost first.
#define PACELINE_CRASH_FACTS_FIELDS(FIELD) \
  FIELD(int, code, 0)                      \
  FIELD(uint64_t, address, 0)              \
  FIELD(uint64_t, stack_pointer, 0)        \
  FIELD(std::string, place, "")            \
  FIELD(std::string, thread, "")           \
  FIELD(std::string, what, "")             \
  FIELD(std::vector<std::string>, frames, {})
PACELINE_RECORD(CrashFacts, PACELINE_CRASH_FACTS_FIELDS);

// What is known of memory when a process was killed; 0 where it is not. `group`: the memory cgroup, with its limit.
// `peak_bytes`: the most that the process had resident. `available_bytes`: of the machine, afterwards. `host_kill`: the
// out-of-memory killer was at work on the machine while the process lived, though not in `group`.
#define PACELINE_MEMORY_FACTS_FIELDS(FIELD) \
  FIELD(std::string, group, "")             \
  FIELD(int64_t, limit_bytes, 0)            \
  FIELD(int64_t, peak_bytes, 0)             \
  FIELD(int64_t, available_bytes, 0)        \
  FIELD(bool, host_kill, false)
PACELINE_RECORD(MemoryFacts, PACELINE_MEMORY_FACTS_FIELDS);

/// From what waitpid() gives for a process that has ended.
ExitStatus exit_status_from_wait(int wait_status);

/// "SIGSEGV", or "signal 77" for one without a name.
std::string signal_name(int signal);

/// "exited with code 3", "was killed by SIGKILL (out of memory)", "crashed with SIGSEGV (core dumped)".
std::string describe(const ExitStatus& status);

}  // namespace paceline
