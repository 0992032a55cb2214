#include "paceline/core/posix/process_usage.h"

#include <unistd.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace paceline {
namespace {

double boot_time() {
  timespec since_boot{};
  ::clock_gettime(CLOCK_BOOTTIME, &since_boot);
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return now.count() - static_cast<double>(since_boot.tv_sec) - 1e-9 * static_cast<double>(since_boot.tv_nsec);
}

}  // namespace

arrow::Result<ProcessUsage> process_usage(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  std::ifstream file(path);
  std::string text;
  std::getline(file, text, '\0');
  // "7 (name) S 1 …": the name may hold blanks and parentheses. The fields are counted from 3 behind it (proc(5)).
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return arrow::Status::IOError("there is no process ", pid);
  std::istringstream rest(text.substr(name_end + 1));
  std::vector<std::string> fields;
  for (std::string field; rest >> field;) fields.push_back(field);
  const auto number = [&](size_t field) {
    return field - 3 < fields.size() ? std::strtoll(fields[field - 3].c_str(), nullptr, 10) : 0LL;
  };
  if (fields.empty() || fields[0] == "Z" || fields[0] == "X")
    return arrow::Status::IOError("process ", pid, " has ended");
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return ProcessUsage{.started = boot_time() + static_cast<double>(number(22)) / ticks,
                      .cpu_s = static_cast<double>(number(14) + number(15)) / ticks,
                      .resident_bytes = number(24) * ::sysconf(_SC_PAGESIZE)};
}

}  // namespace paceline
