#include "paceline/agent/sampling/kernel_texts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

namespace paceline::agent {
namespace {

constexpr std::string_view kBlanks = " \t";
constexpr int64_t kSectorBytes = 512;  // whatever the disk's own are

// Gives the first line and takes it away. The last may have been cut off.
std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(word.size());
  return word;
}

std::optional<int64_t> number_of(std::string_view word) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() ? std::optional(number) : std::nullopt;
}

// The words of a line as numbers, up to the first that is none.
std::vector<int64_t> numbers_of(std::string_view line) {
  std::vector<int64_t> numbers;
  for (auto number = number_of(take_word(line)); number; number = number_of(take_word(line))) {
    numbers.push_back(*number);
  }
  return numbers;
}

bool begins_with_any(std::string_view name, const auto& beginnings) {
  return std::ranges::any_of(beginnings, [name](std::string_view one) { return name.starts_with(one); });
}

void add(std::optional<ByteCounts>& sum, int64_t in, int64_t out) {
  if (!sum) sum.emplace();
  sum->in += in;
  sum->out += out;
}

}  // namespace

std::optional<CpuTicks> parse_cpu_ticks(std::string_view stat) {
  std::string_view line = take_line(stat);
  if (take_word(line) != "cpu") return std::nullopt;
  // user nice system idle iowait irq softirq steal; guests' times are in user and nice.
  const std::vector<int64_t> times = numbers_of(line);
  constexpr size_t kIdle = 3, kWaiting = 4, kCounted = 8;
  if (times.size() <= kWaiting) return std::nullopt;
  CpuTicks ticks;
  for (size_t i = 0; i < std::min(times.size(), kCounted); ++i) ticks.all += times[i];
  ticks.busy = ticks.all - times[kIdle] - times[kWaiting];
  return ticks;
}

std::optional<double> parse_load(std::string_view loadavg) {
  const std::string_view word = take_word(loadavg);
  double load = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), load);
  return error == std::errc() ? std::optional(load) : std::nullopt;
}

std::optional<int64_t> parse_number_behind(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    std::string_view line = take_line(text);
    if (!line.starts_with(name)) continue;
    line.remove_prefix(name.size());
    if (!line.empty() && kBlanks.find(line.front()) != std::string_view::npos) return number_of(take_word(line));
  }
  return std::nullopt;
}

std::optional<int64_t> parse_leading_number(std::string_view text) {
  std::string_view line = take_line(text);
  return number_of(take_word(line));
}

std::optional<ByteCounts> parse_disk_bytes(std::string_view diskstats,
                                           const std::function<bool(std::string_view name)>& is_counted) {
  std::optional<ByteCounts> sum;
  while (!diskstats.empty()) {
    std::string_view line = take_line(diskstats);
    take_word(line);  // the numbers of the device
    take_word(line);
    const std::string_view name = take_word(line);
    if (name.empty() || !is_counted(name)) continue;
    constexpr size_t kSectorsRead = 2, kSectorsWritten = 6;
    const std::vector<int64_t> numbers = numbers_of(line);
    if (numbers.size() <= kSectorsWritten) continue;
    add(sum, numbers[kSectorsRead] * kSectorBytes, numbers[kSectorsWritten] * kSectorBytes);
  }
  return sum;
}

bool is_real_disk(std::string_view name) {
  static constexpr std::array<std::string_view, 6> kOthers = {"loop", "ram", "zram", "dm-", "md", "sr"};
  return !begins_with_any(name, kOthers);
}

std::optional<ByteCounts> parse_network_bytes(std::string_view net_dev) {
  static constexpr std::array<std::string_view, 6> kPassOn = {"veth", "docker", "br-", "virbr", "cni", "cali"};
  std::optional<ByteCounts> sum;
  while (!net_dev.empty()) {
    std::string_view line = take_line(net_dev);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    std::string_view before = line.substr(0, colon);
    const std::string_view name = take_word(before);
    if (name == "lo" || begins_with_any(name, kPassOn)) continue;
    constexpr size_t kReceived = 0, kSent = 8;
    const std::vector<int64_t> numbers = numbers_of(line.substr(colon + 1));
    if (numbers.size() > kSent) add(sum, numbers[kReceived], numbers[kSent]);
  }
  return sum;
}

}  // namespace paceline::agent
