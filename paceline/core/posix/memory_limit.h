// How much more memory this process can use, by the machine and by the control groups that it is in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

/// A control group's folder, of version 1 or 2 of their files.
struct MemoryGroup {
  std::string folder;
  int version = 2;
};

/// Where this process's group may be, best first, for what /proc/self/cgroup says; inside a container the path may be
/// the host's, so the mount's root follows. Pure.
std::vector<MemoryGroup> memory_groups(std::string_view proc_self_cgroup);

/// The same with all groups above, each of which may have a limit of its own. Pure.
std::vector<MemoryGroup> limiting_groups(std::string_view proc_self_cgroup);

/// Bytes in memory.max or memory.limit_in_bytes; 0 for no limit. Pure.
int64_t parse_memory_limit(std::string_view text);

/// Bytes of the page cache that a group can take back, read once or often, by its memory.stat; of version 1 with the
/// groups below. Pure.
int64_t files_in_memory(std::string_view memory_stat, int version);

struct MemoryLeft {
  int64_t bytes = 0;
  std::string owner;  ///< "the machine", or "the control group /sys/fs/cgroup/… (limit 2 GiB)"
};

/// The least of what the machine and those groups have left; of a group, what it can take back (its page cache) counts
/// as left. INT64_MAX where nobody says it. It reads a few files (some 100 µs): not for a hot path.
MemoryLeft memory_left();

}  // namespace paceline
