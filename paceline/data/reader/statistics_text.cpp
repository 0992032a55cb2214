#include "paceline/data/reader/statistics_text.h"

#include <algorithm>
#include <cstdio>

namespace paceline::data {
namespace {

template <typename... Values>
std::string line(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return std::string(text) + "\n";
}

// 1234567 as "1,234,567".
std::string grouped(double number) {
  std::string digits = std::to_string(static_cast<long long>(number));
  for (auto place = static_cast<int64_t>(digits.size()) - 3; place > 0; place -= 3) {
    digits.insert(static_cast<size_t>(place), ",");
  }
  return digits;
}

}  // namespace

std::string statistics_text(const std::vector<OperatorFigures>& steps) {
  if (std::ranges::all_of(steps, [](const OperatorFigures& step) { return step.blocks == 0; })) return "";
  std::string text;
  for (size_t number = 0; number < steps.size(); ++number) {
    const OperatorFigures& step = steps[number];
    text += "Operator " + std::to_string(number) + " " + step.name + ": " + std::to_string(step.blocks) + " blocks\n";
    text += "* Rows: " + (step.rows_in > 0 ? std::to_string(step.rows_in) + " in, " : std::string()) +
            std::to_string(step.rows_out) + " out\n";
    text += line("* Bytes: %.1f MB out", static_cast<double>(step.bytes_out) / 1e6);
    text += line("* Busy: %.3f s in all threads, %.1f ms for the longest block",
                 static_cast<double>(step.busy_ns) / 1e9, static_cast<double>(step.longest_ns) / 1e6);
  }
  // A step that reads holds those before it no more than a function does: each has only its own time.
  const auto busiest = std::ranges::max_element(steps, {}, &OperatorFigures::busy_ns);
  if (busiest == steps.end() || busiest->busy_ns == 0) return text;
  const double rate = static_cast<double>(busiest->rows_out) / (static_cast<double>(busiest->busy_ns) / 1e9);
  return text + "Bottleneck: " + busiest->name + ", which makes " + grouped(rate) + " rows/s in one thread\n";
}

}  // namespace paceline::data
