// What a process uses, as /proc reports it.
#pragma once

#include <arrow/result.h>
#include <sys/types.h>

#include <cstdint>

namespace paceline {

struct ProcessUsage {
  /// When it started: seconds since the Unix epoch, exact to about a hundredth. It tells the process from an earlier
  /// one that had the same id.
  double started = 0;
  /// Seconds of processor time, user and system, of all its threads.
  double cpu_s = 0;
  /// Bytes of memory that are resident now.
  int64_t resident_bytes = 0;
};

/// IOError when there is no such process, or it has ended and only waits for its parent.
arrow::Result<ProcessUsage> process_usage(pid_t pid);

}  // namespace paceline
