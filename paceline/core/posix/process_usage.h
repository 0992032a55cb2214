// What a process uses, as /proc tells it.
#pragma once

#include <arrow/result.h>
#include <sys/types.h>

#include <cstdint>

namespace paceline {

struct ProcessUsage {
  /// When it started: seconds since the Unix epoch, exact to about a hundredth. With it an id that was used anew is
  /// told from its first owner.
  double started = 0;
  /// Seconds of processor time, user and system, of all its threads.
  double cpu_s = 0;
  /// Bytes of memory that it has now.
  int64_t resident_bytes = 0;
};

/// IOError when there is no such process, or it has ended and only waits for its parent.
arrow::Result<ProcessUsage> process_usage(pid_t pid);

}  // namespace paceline
