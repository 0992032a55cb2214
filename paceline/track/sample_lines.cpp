#include "paceline/track/sample_lines.h"

#include <array>
#include <charconv>
#include <cmath>

namespace paceline::track {
namespace {

constexpr int kDigits = 6;  // of what goes up and down
constexpr int kExactDigits = 15;
constexpr double kExact = 1e15;
constexpr double kLatest = 1e12;  // seconds since the Unix epoch: far beyond any run
constexpr double kSmall = 1e6;

void append_number(std::string& text, double value, bool exactly) {
  if (!std::isfinite(value)) {
    text += "null";
    return;
  }
  std::array<char, 40> digits{};
  const bool is_whole = value == std::floor(value) && std::fabs(value) < (exactly ? kExact : kSmall);
  const char* const end =
      is_whole  ? std::to_chars(digits.begin(), digits.end(), static_cast<int64_t>(value)).ptr
      : exactly ? std::to_chars(digits.begin(), digits.end(), value, std::chars_format::general, kExactDigits).ptr
                : std::to_chars(digits.begin(), digits.end(), value, std::chars_format::general, kDigits).ptr;
  text.append(digits.data(), static_cast<size_t>(end - digits.data()));
}

bool take(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(what.size());
  return true;
}

bool take_number(std::string_view& text, double& number) {
  if (take(text, "null")) {
    number = std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return error == std::errc() && std::isfinite(number);
}

bool take_value(std::string_view& text, SampleValue& value) {
  if (take(text, "[")) {
    return take_number(text, value.mean) && take(text, ",") && take_number(text, value.min) && take(text, ",") &&
           take_number(text, value.max) && take(text, "]");
  }
  if (!take_number(text, value.mean)) return false;
  value.min = value.max = value.mean;
  return true;
}

}  // namespace

bool is_total(std::string_view column) {
  return column.ends_with("_total");
}

std::string encode_samples_header(const SamplesHeader& header) {
  return Json(header).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string encode_samples_row(const SamplesRow& row, const std::vector<std::string>& columns) {
  std::string text = "[";
  append_number(text, row.time, /*exactly=*/true);
  for (size_t i = 0; i < row.values.size(); ++i) {
    const SampleValue& value = row.values[i];
    const bool exactly = is_total(columns[i]);
    text += ',';
    if (exactly || !(value.min != value.max)) {
      append_number(text, value.mean, exactly);
    } else if (std::isnan(value.mean)) {
      text += "null";
    } else {
      text += '[';
      append_number(text, value.mean, false);
      text += ',';
      append_number(text, value.min, false);
      text += ',';
      append_number(text, value.max, false);
      text += ']';
    }
  }
  return text + "]\n";
}

std::optional<SamplesHeader> decode_samples_header(std::string_view line) {
  if (!line.starts_with('{')) return std::nullopt;
  const auto json = decode_json(line);
  if (!json.ok()) return std::nullopt;
  try {
    auto header = json->get<SamplesHeader>();
    const bool is_known = header.version == kSamplesVersion && header.seconds > 0;
    return is_known ? std::optional(std::move(header)) : std::nullopt;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

bool decode_samples_row(std::string_view line, size_t columns, SamplesRow& row) {
  row.values.assign(columns, {});
  if (!take(line, "[") || !take_number(line, row.time) || !(row.time >= 0 && row.time < kLatest)) return false;
  for (SampleValue& value : row.values) {
    if (!take(line, ",") || !take_value(line, value)) return false;
  }
  return line == "]";
}

}  // namespace paceline::track
