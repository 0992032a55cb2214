// What the kernel tells in files of lines "NAME VALUE …", as /proc/7/status, /proc/meminfo and memory.events are.
//
// Parsing is pure and takes any text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

/// All that is in the file, "" when it cannot be read.
std::string read_kernel_file(const std::string& path);

/// The first word behind `name` (with its colon, where it has one) at the beginning of a line; "" when there is none.
std::string parse_kernel_value(std::string_view text, std::string_view name);
/// The same as a number; nullopt when there is none.
std::optional<int64_t> parse_kernel_number(std::string_view text, std::string_view name);

}  // namespace paceline
