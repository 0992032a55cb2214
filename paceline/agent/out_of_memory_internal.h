// Tells whether the kernel's out-of-memory killer was at work, from the counter of this process's memory cgroup.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::agent {

/// Files that may hold the counter, best first, for what /proc/self/cgroup says (cgroup version 1 and 2; inside a
/// container the path may be the host's, so the mount's root follows).
std::vector<std::string> out_of_memory_files(std::string_view proc_self_cgroup);

/// The number behind "oom_kill" in memory.events or memory.oom_control; nullopt when there is none.
std::optional<int64_t> parse_out_of_memory_kills(std::string_view text);

class OutOfMemoryCounter {
 public:
  /// The first of `files` that has the counter; without one every take() is false.
  explicit OutOfMemoryCounter(const std::vector<std::string>& files);
  static OutOfMemoryCounter of_this_process();

  /// Kills until now are nobody's.
  void forget();
  /// Whether there was a kill that no earlier take() has claimed; claims one.
  bool take();

 private:
  int64_t read() const;

  std::string file_;
  int64_t claimed_ = 0;
};

}  // namespace paceline::agent
