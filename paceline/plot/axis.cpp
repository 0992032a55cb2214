#include "paceline/plot/axis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace paceline::plot {
namespace {

// The least round number that is not below `least`.
double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

std::string label_of(double value, double step) {
  std::array<char, 64> text{};
  const double greatest = std::max(std::abs(value), step);
  if (greatest >= 1e6 || step < 1e-4) {
    const int digits = std::max(0, static_cast<int>(std::floor(std::log10(greatest)) - std::floor(std::log10(step))));
    std::snprintf(text.data(), text.size(), "%.*e", digits, value);
  } else {
    const int digits = std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
    std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  }
  return text.data();
}

}  // namespace

Range range_of(const std::vector<double>& values) {
  Range range{HUGE_VAL, -HUGE_VAL};
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    range = {std::min(range.low, value), std::max(range.high, value)};
  }
  if (range.low > range.high) return {0, 1};
  const double least = std::max(std::abs(range.low), std::abs(range.high)) * 1e-9;
  if (range.high - range.low > least) return range;
  const double room = range.low == 0 ? 1 : std::abs(range.low) / 2;
  return {range.low - room, range.high + room};
}

std::vector<Tick> ticks(const Range& range, int most) {
  const double step = round_step((range.high - range.low) / std::max(1, most - 1));
  std::vector<Tick> ticks;
  const double slack = step * 1e-9;
  const double first = std::ceil((range.low - slack) / step);
  for (int index = 0; (first + index) * step <= range.high + slack; ++index) {
    const double number = first + index;
    const double value = number == 0 ? 0 : number * step;  // not -0
    ticks.push_back({value, label_of(value, step)});
  }
  return ticks;
}

}  // namespace paceline::plot
