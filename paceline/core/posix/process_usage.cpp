#include "paceline/core/posix/process_usage.h"

#include <unistd.h>

#include <chrono>
#include <ctime>
#include <string>

#include "paceline/core/posix/process_stat.h"

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
  const auto stat = read_process_stat("/proc/" + std::to_string(pid));
  if (!stat) return arrow::Status::IOError("there is no process ", pid);
  const bool has_ended = stat->state == 'Z' || stat->state == 'X' || stat->resident_pages == 0;  // what ends has none
  if (has_ended) return arrow::Status::IOError("process ", pid, " has ended");
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return ProcessUsage{.started = boot_time() + static_cast<double>(stat->start_ticks) / ticks,
                      .cpu_s = stat->cpu_ticks / ticks,
                      .resident_bytes = stat->resident_pages * ::sysconf(_SC_PAGESIZE)};
}

}  // namespace paceline
