#include "paceline/core/config/constraint.h"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

namespace paceline {
namespace {

std::string number(double value) {
  std::ostringstream text;
  text.precision(15);  // 1000000000 rather than 1e+09
  text << value;
  return text.str();
}

}  // namespace

Constraint any_value() {
  return {[](const Json&) { return true; }, "anything"};
}

Constraint at_least(double low) {
  return {[low](const Json& value) { return value.is_number() && value.get<double>() >= low; },
          "at least " + number(low)};
}

Constraint more_than(double low) {
  return {[low](const Json& value) { return value.is_number() && value.get<double>() > low; },
          "more than " + number(low)};
}

Constraint between(double low, double high) {
  return {[low, high](const Json& value) {
            return value.is_number() && value.get<double>() > low && value.get<double>() < high;
          },
          "more than " + number(low) + " and less than " + number(high)};
}

Constraint from_to(double low, double high) {
  return {[low, high](const Json& value) {
            return value.is_number() && value.get<double>() >= low && value.get<double>() <= high;
          },
          number(low) + " to " + number(high)};
}

Constraint one_of(std::vector<std::string> names) {
  std::string words;
  for (const auto& name : names) words += (words.empty() ? "" : ", ") + ('"' + name + '"');
  return {[names = std::move(names)](const Json& value) {
            return value.is_string() && std::find(names.begin(), names.end(), value.get<std::string>()) != names.end();
          },
          "one of " + words};
}

Constraint folder_below() {
  return {[](const Json& value) {
            if (!value.is_string()) return false;
            const auto& text = value.get_ref<const std::string&>();
            for (size_t begin = 0; begin <= text.size();) {
              const size_t end = std::min(text.find('/', begin), text.size());
              const std::string_view name = std::string_view(text).substr(begin, end - begin);
              if (name.empty() || name == "." || name == "..") return false;
              begin = end + 1;
            }
            return text.find('\0') == std::string::npos;
          },
          "a name, or names joined by '/', none of them empty, \".\" or \"..\""};
}

Constraint variables() {
  return {[](const Json& value) {
            const auto& items = value.items();
            return std::all_of(items.begin(), items.end(), [](const auto& item) {
              return !item.key().empty() && item.key().find('=') == std::string::npos && item.value().is_string();
            });
          },
          "names without '=' and their values"};
}

}  // namespace paceline
