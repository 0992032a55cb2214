// What the kernel's file `stat` says of a process (/proc/7) or a thread (/proc/self/task/8).
//
// Parsing is pure and takes any text: what is missing or no number is 0.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

/// Fields of `stat`; proc(5) tells of each.
struct ProcessStat {
  char state = '?';  // 'S' while it sleeps, 'Z' when it has ended and its parent has not waited for it
  pid_t parent = 0;
  int64_t flags = 0;     // the kernel's PF_…
  double cpu_ticks = 0;  // user and system, of all its threads
  int64_t threads = 0;
  int64_t start_ticks = 0;  // since the machine started
  int64_t resident_pages = 0;
  int64_t arguments_start = 0;  // addresses, in the process itself
  int64_t arguments_end = 0;
};

/// Nothing when the text has no name in parentheses and a state behind it.
std::optional<ProcessStat> parse_process_stat(std::string_view stat);
/// Nothing when there is no such process or thread.
std::optional<ProcessStat> read_process_stat(const std::string& folder);

}  // namespace paceline
