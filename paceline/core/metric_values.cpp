#include "paceline/core/metric_values.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace paceline {
namespace {

// Infinite if it is too large for a double, 0 if it is too small. Nothing when `text` is no decimal number.
std::optional<double> decimal_in(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return std::nullopt;
  if (error == std::errc()) return number;
  const double size = text.find("E-") == std::string_view::npos ? std::numeric_limits<double>::infinity() : 0.0;
  return text.starts_with('-') ? -size : size;
}

std::optional<double> fraction_in(std::string_view text) {
  const size_t slash = text.find('/');
  const std::optional<double> above = decimal_in(text.substr(0, slash));
  if (slash == std::string_view::npos) return above;
  const std::optional<double> below = decimal_in(text.substr(slash + 1));
  if (!above || !below) return std::nullopt;
  return *above / *below;
}

// A dictionary all of whose keys are texts does not list them.
Json keys_of(const Json& dictionary) {
  if (const auto listed = dictionary.find(kKeysMember); listed != dictionary.end()) return *listed;
  Json keys = Json::array();
  for (const auto& [name, value] : dictionary.items()) keys.push_back(name);
  return keys;
}

}  // namespace

std::optional<double> score_of(const Json& metric) {
  if (metric.is_number()) return metric.get<double>();
  if (metric.is_boolean()) return metric.get<bool>() ? 1.0 : 0.0;
  if (!metric.is_array() || metric.size() != 2 || !metric[0].is_string() || !metric[1].is_string()) return std::nullopt;
  const auto& mark = metric[0].get_ref<const std::string&>();
  const auto& text = metric[1].get_ref<const std::string&>();
  if (mark == "$int" || mark == "$decimal") return decimal_in(text);
  return mark == "$fraction" ? fraction_in(text) : std::nullopt;
}

void update_metrics(Json& metrics, const Json& more) {
  const bool has_list = metrics.contains(kKeysMember) || more.contains(kKeysMember);
  Json keys = keys_of(metrics);
  const Json added = keys_of(more);
  metrics.update(more);
  if (!has_list || !keys.is_array() || !added.is_array()) return;
  for (const Json& key : added) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  metrics[kKeysMember] = std::move(keys);
}

}  // namespace paceline
