#include <algorithm>

#include "paceline/agent/out_of_memory_internal.h"
#include "paceline/core/posix/kernel_file.h"
#include "paceline/core/posix/memory_limit.h"

namespace paceline::agent {
std::vector<std::string> out_of_memory_files(std::string_view proc_self_cgroup) {
  std::vector<std::string> files;
  for (const auto& [folder, version] : memory_groups(proc_self_cgroup)) {
    files.push_back(folder + (version == 2 ? "/memory.events" : "/memory.oom_control"));
  }
  return files;
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
