#include "paceline/core/posix/kernel_file.h"

#include <charconv>
#include <fstream>
#include <sstream>

namespace paceline {

std::string read_kernel_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();  // an iterator over it would throw where reading fails: /proc has files of processes that end
  return text.str();
}

std::string parse_kernel_value(std::string_view text, std::string_view name) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, value;
    if (words >> first && first == name) return words >> value ? value : "";
  }
  return "";
}

std::optional<int64_t> parse_kernel_number(std::string_view text, std::string_view name) {
  const std::string value = parse_kernel_value(text, name);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

}  // namespace paceline
