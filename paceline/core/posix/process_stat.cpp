#include "paceline/core/posix/process_stat.h"

#include <charconv>
#include <iterator>
#include <sstream>
#include <vector>

#include "paceline/core/posix/kernel_file.h"

namespace paceline {
namespace {

// Fields are counted from 1 as proc(5) does; the second, the name, may hold blanks and parentheses.
constexpr size_t kAfterName = 3;

}  // namespace

std::optional<ProcessStat> parse_process_stat(std::string_view stat) {
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  std::istringstream rest{std::string(stat.substr(name_end + 1))};
  const std::vector<std::string> fields{std::istream_iterator<std::string>(rest), {}};
  if (fields.empty()) return std::nullopt;
  const auto number = [&fields](size_t field) {
    int64_t value = 0;
    if (field - kAfterName >= fields.size()) return value;
    const std::string& text = fields[field - kAfterName];
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  };
  return ProcessStat{.state = fields[0].front(),
                     .parent = static_cast<pid_t>(number(4)),
                     .flags = number(9),
                     .cpu_ticks = static_cast<double>(number(14)) + static_cast<double>(number(15)),
                     .threads = number(20),
                     .start_ticks = number(22),
                     .resident_pages = number(24),
                     .arguments_start = number(48),
                     .arguments_end = number(49)};
}

std::optional<ProcessStat> read_process_stat(const std::string& folder) {
  return parse_process_stat(read_kernel_file(folder + "/stat"));
}

}  // namespace paceline
