#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include "paceline/agent/out_of_memory_internal.h"

namespace paceline::agent {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

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

std::optional<int64_t> parse_out_of_memory_kills(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::string name;
  for (int64_t value; words >> name >> value;) {
    if (name == "oom_kill") return value;
  }
  return std::nullopt;
}

int64_t parse_memory_limit(std::string_view text) {
  // Version 1 says "no limit" by the largest number of whole pages.
  constexpr int64_t kNoLimit = int64_t{1} << 60;
  int64_t limit = 0;
  std::istringstream(std::string(text)) >> limit;
  return limit < kNoLimit ? limit : 0;
}

int64_t parse_named_number(std::string_view text, std::string_view name) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    int64_t number = 0;
    if (words >> word >> number && word == name) return number;
  }
  return 0;
}

OutOfMemoryCounter::OutOfMemoryCounter(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (parse_out_of_memory_kills(read_file(file))) {
      file_ = file;
      break;
    }
  }
  forget();
}

OutOfMemoryCounter OutOfMemoryCounter::of_this_process() {
  return OutOfMemoryCounter(out_of_memory_files(read_file("/proc/self/cgroup")));
}

void OutOfMemoryCounter::forget() {
  claimed_ = read();
  machine_kills_ = parse_named_number(read_file("/proc/vmstat"), "oom_kill");
}

bool OutOfMemoryCounter::take() {
  if (read() <= claimed_) return false;
  ++claimed_;
  return true;
}

MemoryFacts OutOfMemoryCounter::facts() const {
  MemoryFacts facts;
  facts.available_bytes = parse_named_number(read_file("/proc/meminfo"), "MemAvailable:") * 1024;
  facts.host_kill = parse_named_number(read_file("/proc/vmstat"), "oom_kill") > machine_kills_;
  if (file_.empty()) return facts;
  facts.group = file_.substr(0, file_.rfind('/'));
  for (const char* name : {"/memory.max", "/memory.limit_in_bytes"}) {
    facts.limit_bytes = std::max(facts.limit_bytes, parse_memory_limit(read_file(facts.group + name)));
  }
  return facts;
}

int64_t OutOfMemoryCounter::read() const {
  return file_.empty() ? 0 : parse_out_of_memory_kills(read_file(file_)).value_or(0);
}

}  // namespace paceline::agent
