#include "paceline/core/posix/memory_limit.h"

#include <algorithm>
#include <sstream>

#include "paceline/core/bytes_text.h"
#include "paceline/core/posix/kernel_file.h"

namespace paceline {
namespace {

bool contains_name(const std::string& list, const std::string& name) {
  return ("," + list + ",").find("," + name + ",") != std::string::npos;
}

int64_t number_in(const std::string& file) {
  int64_t number = 0;
  std::istringstream(read_kernel_file(file)) >> number;
  return number;
}

}  // namespace

std::vector<MemoryGroup> memory_groups(std::string_view proc_self_cgroup) {
  std::vector<MemoryGroup> groups;
  std::istringstream lines{std::string(proc_self_cgroup)};
  for (std::string hierarchy, controllers, path;
       std::getline(lines, hierarchy, ':') && std::getline(lines, controllers, ':') && std::getline(lines, path);) {
    const int version = controllers.empty() ? 2 : 1;
    if (version == 1 && !contains_name(controllers, "memory")) continue;
    const std::string mount = version == 2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    if (path != "/") groups.push_back({mount + path, version});
    groups.push_back({mount, version});
  }
  return groups;
}

std::vector<MemoryGroup> limiting_groups(std::string_view proc_self_cgroup) {
  std::vector<MemoryGroup> groups;
  for (const auto& [folder, version] : memory_groups(proc_self_cgroup)) {
    const std::string mount = version == 2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    for (std::string above = folder; above.size() > mount.size(); above.resize(above.rfind('/'))) {
      groups.push_back({above, version});
    }
    if (folder == mount) groups.push_back({mount, version});
  }
  return groups;
}

int64_t parse_memory_limit(std::string_view text) {
  // Version 1 says "no limit" by the largest number of whole pages.
  constexpr int64_t kNoLimit = int64_t{1} << 60;
  int64_t limit = 0;
  std::istringstream(std::string(text)) >> limit;
  return limit < kNoLimit ? limit : 0;
}

int64_t files_in_memory(std::string_view memory_stat, int version) {
  int64_t bytes = 0;
  for (const char* list : {"active_file", "inactive_file"}) {
    bytes += parse_kernel_number(memory_stat, (version == 2 ? "" : "total_") + std::string(list)).value_or(0);
  }
  return bytes;
}

MemoryLeft memory_left() {
  MemoryLeft left{.bytes = INT64_MAX, .owner = "the machine"};
  // A file that cannot be read, for want of descriptors for instance, is no answer.
  if (const auto available = parse_kernel_number(read_kernel_file("/proc/meminfo"), "MemAvailable:")) {
    left.bytes = *available * 1024;
  }
  for (const auto& [folder, version] : limiting_groups(read_kernel_file("/proc/self/cgroup"))) {
    const bool is_second = version == 2;
    const int64_t limit =
        parse_memory_limit(read_kernel_file(folder + (is_second ? "/memory.max" : "/memory.limit_in_bytes")));
    if (limit == 0) continue;
    const int64_t used = number_in(folder + (is_second ? "/memory.current" : "/memory.usage_in_bytes"));
    const int64_t reclaimable = files_in_memory(read_kernel_file(folder + "/memory.stat"), version);
    const int64_t bytes = std::max<int64_t>(limit - used + reclaimable, 0);
    if (bytes < left.bytes) {
      left = {.bytes = bytes, .owner = "the control group " + folder + " (limit " + bytes_text(limit) + ")"};
    }
  }
  return left;
}

}  // namespace paceline
