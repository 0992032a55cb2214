// What the kernel's files say of a machine and of processes, as numbers.
//
// Pure, and takes any text: what is missing, cut off or no number is absent.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace paceline::agent {

/// Of all cores together since the machine started, in ticks of the clock.
struct CpuTicks {
  int64_t busy = 0;
  int64_t all = 0;
};
/// Of /proc/stat. Waiting for a disk counts as idle.
std::optional<CpuTicks> parse_cpu_ticks(std::string_view stat);

/// The first number of /proc/loadavg: of the last minute.
std::optional<double> parse_load(std::string_view loadavg);

/// The number behind `name`, with its colon where it has one, at the beginning of a line: of /proc/meminfo (in KiB),
/// memory.stat, /proc/7/io.
std::optional<int64_t> parse_number_behind(std::string_view text, std::string_view name);

/// The number that a text begins with: of memory.current. Nothing for "max".
std::optional<int64_t> parse_leading_number(std::string_view text);

/// What went into a machine, and what went out, since it started, in bytes.
struct ByteCounts {
  int64_t in = 0;   // read from disks, received
  int64_t out = 0;  // written, sent

  bool operator==(const ByteCounts&) const = default;
};
/// Of /proc/diskstats: the disks, by name, of which `is_counted` says so. Nothing when there are none.
std::optional<ByteCounts> parse_disk_bytes(std::string_view diskstats,
                                           const std::function<bool(std::string_view name)>& is_counted);
/// Whether a block device is none that lies on others, or in memory: those would be counted twice.
bool is_real_disk(std::string_view name);

/// Of /proc/net/dev: all interfaces but loopback and those that only pass on what others send. Nothing when there are
/// none.
std::optional<ByteCounts> parse_network_bytes(std::string_view net_dev);

}  // namespace paceline::agent
