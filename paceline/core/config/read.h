// read_config: a configuration from JSON, checked as strictly as the compiler checks one that is written in C++.
//
// nlohmann's conversions alone would make 2 of 2.5 and 1 of true. What does not fit a field's type, or is not allowed,
// is a ConfigError of one form: "FailureConfig.max_failures is 2.5; allowed: an integer, at least -1".
#pragma once

#include <cmath>
#include <concepts>
#include <string>

#include "paceline/core/config/field.h"

namespace paceline {

/// Throws the ConfigError for a value of the wrong type, which looks like `shown`: `type` is what the field holds ("an
/// integer"), `allowed` are its constraint's words.
[[noreturn]] void refuse_type(const std::string& config, const char* field, const std::string& shown,
                              const std::string& type, const std::string& allowed);

template <class T>
concept Optional = requires(T value) {
  value.has_value();
  value.emplace();
};
template <class T>
concept Configuration = requires { T::fields(); };

/// What a JSON value must be to become a T.
template <class T>
std::string type_words() {
  if constexpr (Optional<T>) {
    return type_words<typename T::value_type>();
  } else if constexpr (std::same_as<T, bool>) {
    return "true or false";
  } else if constexpr (std::integral<T>) {
    return "an integer";
  } else if constexpr (std::floating_point<T>) {
    return "a number";
  } else if constexpr (std::same_as<T, std::string>) {
    return "a string";
  } else if constexpr (requires(T list) { list.push_back(list.front()); }) {
    return "a list";
  } else if constexpr (Configuration<T>) {
    return "a configuration";
  } else {
    return requires(T map) { map[""] = std::string(); } ? "names with strings" : "names with values";
  }
}

/// Whether `value` has the type of a T, where nlohmann's conversion would take more.
template <class T>
bool has_type(const Json& value) {
  if constexpr (std::same_as<T, bool>) {
    return value.is_boolean();
  } else if constexpr (std::integral<T>) {
    constexpr double kExact = 9007199254740992;  // up to here a double counts whole numbers one by one
    if (!value.is_number_float()) return value.is_number_integer();
    return std::fmod(value.get<double>(), 1) == 0 && std::fabs(value.get<double>()) <= kExact;
  } else if constexpr (std::floating_point<T>) {
    return value.is_number();
  } else {
    return !Configuration<T> || value.is_object();
  }
}

/// Whether `value` became `target`.
template <class T>
bool take_value(const Json& value, T& target) {
  if constexpr (Optional<T>) {
    return take_value(value, target.emplace());
  } else {
    if (!has_type<T>(value)) return false;
    try {
      value.get_to(target);
      return true;
    } catch (const Json::exception&) {
      return false;
    }
  }
}

/// `values` as a Settings, the fields that are absent or null at their default. `name` is the configuration's in
/// errors.
template <class Settings>
Settings read_config(const Json& values, const std::string& name) {
  Settings settings;
  const auto fields = Settings::fields();
  auto field = fields.begin();
  Settings::visit(settings, [&](const char* field_name, auto& target) {
    const std::string& allowed = (field++)->allowed;
    const auto found = values.find(field_name);
    if (found == values.end() || found->is_null()) return;
    using T = std::decay_t<decltype(target)>;
    if (!take_value(*found, target)) refuse_type(name, field_name, readable_json(*found), type_words<T>(), allowed);
  });
  settings.validate(name.c_str());
  return settings;
}

/// Throws the ConfigError for a value of `field` that has no JSON form, and looks like `shown`.
template <class Settings>
void refuse_value(const std::string& name, const std::string& field, const std::string& shown) {
  Settings settings;
  const auto fields = Settings::fields();
  auto declared = fields.begin();
  Settings::visit(settings, [&](const char* field_name, auto& target) {
    const std::string& allowed = (declared++)->allowed;
    using T = std::decay_t<decltype(target)>;
    if (field == field_name) refuse_type(name, field_name, shown, type_words<T>(), allowed);
  });
}

}  // namespace paceline
