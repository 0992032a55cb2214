// Tells whether the kernel's out-of-memory killer was at work, from the counter of this process's memory cgroup.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/posix/exit_status.h"

namespace paceline::agent {

/// Files that may hold the counter, best first, for what /proc/self/cgroup says (cgroup version 1 and 2; inside a
/// container the path may be the host's, so the mount's root follows).
std::vector<std::string> out_of_memory_files(std::string_view proc_self_cgroup);

class OutOfMemoryCounter {
 public:
  /// The first of `files` that has the counter; without one every take() is false.
  explicit OutOfMemoryCounter(const std::vector<std::string>& files);
  static OutOfMemoryCounter of_this_process();

  /// Disregards the kills until now, and starts the machine's count here too.
  void forget();
  /// Whether there was a kill that no earlier take() has claimed; claims one.
  bool take();
  /// Limit and name of the cgroup, what the machine has left, and whether the killer was at work on it since forget().
  MemoryFacts facts() const;

 private:
  int64_t read() const;

  std::string file_;
  int64_t claimed_ = 0;
  int64_t machine_kills_ = 0;
};

}  // namespace paceline::agent
