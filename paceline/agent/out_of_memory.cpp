#include <algorithm>
#include <sstream>

#include "paceline/agent/out_of_memory_internal.h"
#include "paceline/core/posix/kernel_file.h"

namespace paceline::agent {
namespace {

bool contains_name(const std::string& list, const std::string& name) {
  return ("," + list + ",").find("," + name + ",") != std::string::npos;
}

}  // namespace

std::vector<std::string> out_of_memory_files(std::string_view proc_self_cgroup) {
  std::vector<std::string> files;
  std::istringstream lines{std::string(proc_self_cgroup)};
  for (std::string hierarchy, controllers, path;
       std::getline(lines, hierarchy, ':') && std::getline(lines, controllers, ':') && std::getline(lines, path);) {
    const bool second_version = controllers.empty();
    if (!second_version && !contains_name(controllers, "memory")) continue;
    const std::string mount = second_version ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const std::string file = second_version ? "/memory.events" : "/memory.oom_control";
    if (path != "/") files.push_back(mount + path + file);
    files.push_back(mount + file);
  }
  return files;
}

int64_t parse_memory_limit(std::string_view text) {
  // Version 1 says "no limit" by the largest number of whole pages.
  constexpr int64_t kNoLimit = int64_t{1} << 60;
  int64_t limit = 0;
  std::istringstream(std::string(text)) >> limit;
  return limit < kNoLimit ? limit : 0;
}

namespace {

constexpr std::string_view kKills = "oom_kill";  // in memory.events, memory.oom_control and /proc/vmstat

std::optional<int64_t> kills_in(const std::string& file) {
  return parse_kernel_number(read_kernel_file(file), kKills);
}

}  // namespace

OutOfMemoryCounter::OutOfMemoryCounter(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (kills_in(file)) {
      file_ = file;
      break;
    }
  }
  forget();
}

OutOfMemoryCounter OutOfMemoryCounter::of_this_process() {
  return OutOfMemoryCounter(out_of_memory_files(read_kernel_file("/proc/self/cgroup")));
}

void OutOfMemoryCounter::forget() {
  claimed_ = read();
  machine_kills_ = kills_in("/proc/vmstat").value_or(0);
}

bool OutOfMemoryCounter::take() {
  if (read() <= claimed_) return false;
  ++claimed_;
  return true;
}

MemoryFacts OutOfMemoryCounter::facts() const {
  MemoryFacts facts;
  facts.available_bytes = parse_kernel_number(read_kernel_file("/proc/meminfo"), "MemAvailable:").value_or(0) * 1024;
  facts.host_kill = kills_in("/proc/vmstat").value_or(0) > machine_kills_;
  if (file_.empty()) return facts;
  facts.group = file_.substr(0, file_.rfind('/'));
  for (const char* name : {"/memory.max", "/memory.limit_in_bytes"}) {
    facts.limit_bytes = std::max(facts.limit_bytes, parse_memory_limit(read_kernel_file(facts.group + name)));
  }
  return facts;
}

int64_t OutOfMemoryCounter::read() const {
  return file_.empty() ? 0 : kills_in(file_).value_or(0);
}

}  // namespace paceline::agent
