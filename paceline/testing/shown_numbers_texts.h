// What ShownNumbers tells of a line, and what the plainest reading of it does: as texts, to be compared.
#pragma once

#include <bit>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "paceline/core/json.h"
#include "paceline/track/metrics_history.h"
#include "paceline/track/run_record.h"
#include "paceline/views/shown_numbers.h"

namespace paceline::testing {

/// With every bit of a number.
inline std::string numbers_of(views::ShownNumbers& numbers, std::string_view line) {
  if (!numbers.take(line)) return "nothing";
  std::ostringstream text;
  text << numbers.report() << " at " << std::bit_cast<uint64_t>(numbers.time());
  for (const auto& [name, value] : numbers.numbers()) text << ", " << name << "=" << std::bit_cast<uint64_t>(value);
  return text.str();
}

inline std::string numbers_of_value(std::string_view line) {
  const auto row = track::decode_history_line(line);
  const Json* metrics = row && row->highest == 0 ? track::shown_metrics(*row) : nullptr;
  if (metrics == nullptr || !track::may_be_shown(line)) return "nothing";
  std::ostringstream text;
  text << row->report << " at " << std::bit_cast<uint64_t>(row->time);
  track::visit_metrics(*metrics, [&text](const std::string& name, const Json& value) {
    if (value.is_number()) text << ", " << name << "=" << std::bit_cast<uint64_t>(value.get<double>());
  });
  return text.str();
}

}  // namespace paceline::testing
