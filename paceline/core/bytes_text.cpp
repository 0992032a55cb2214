#include "paceline/core/bytes_text.h"

#include <array>
#include <cstdio>

namespace paceline {

std::string bytes_text(int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  auto amount = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; amount >= 1023.5 && unit + 1 < kUnits.size(); ++unit) amount /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), amount < 99.95 ? "%.1f %s" : "%.0f %s", amount, kUnits[unit]);
  return text.data();
}

}  // namespace paceline
