// Named JSON values, read with a type: a train loop's configuration and a report's metrics.
//
// Ownership: a value type. Not thread-safe for writing. Errors: ConfigError naming the key, what was wanted, and what
// is there.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "paceline/core/error.h"
#include "paceline/core/json.h"

namespace paceline {

/// Values by name.
///
///     Config config = {{"num_epochs", 2}, {"data", "./data"}};
///     config.get<int64_t>("num_epochs");           // 2
///     config.get<double>("momentum", 0.9);         // 0.9: absent, so the default
///     config.get<int64_t>("data");                 // ConfigError: "data" is the string "./data"; wanted an integer
class Dictionary {
 public:
  Dictionary() = default;
  /// Names with their values; if a name is given twice, the last value counts.
  Dictionary(std::initializer_list<std::pair<std::string, Json>> values);
  /// From a JSON object; ConfigError when it is another kind of JSON. Null is empty.
  explicit Dictionary(Json object);

  /// The value named `name` as a T: bool, an integer type, double, std::string, a container of those, or Json. An
  /// integer may be read as a double, but not the reverse; an integer outside T's range is an error.
  template <class T>
  T get(const std::string& name) const {
    const Json* value = find(name);
    if (value == nullptr) throw_missing(name);
    return convert<T>(name, *value);
  }
  /// As get(name), but returns `otherwise` if there is no value of that name.
  template <class T>
  T get(const std::string& name, T otherwise) const {
    const Json* value = find(name);
    return value == nullptr ? std::move(otherwise) : convert<T>(name, *value);
  }

  /// Whether find() finds it.
  bool contains(const std::string& name) const { return find(name) != nullptr; }
  /// Nested names are separated by '/': "eval/accuracy" finds {"eval": {"accuracy": …}}; a literal name wins. Null
  /// when there is none.
  const Json* find(const std::string& name) const;
  /// Adds the value, or replaces the value of the same name.
  void set(const std::string& name, Json value) { values_[name] = std::move(value); }
  /// Whether there is no value.
  bool empty() const { return values_.empty(); }
  /// Number of values, nested ones not counted.
  size_t size() const { return values_.size(); }

  /// All values, as a JSON object.
  const Json& json() const { return values_; }
  bool operator==(const Dictionary&) const = default;

  friend void to_json(Json& json, const Dictionary& dictionary) { json = dictionary.values_; }
  friend void from_json(const Json& json, Dictionary& dictionary);

 private:
  [[noreturn]] void throw_missing(const std::string& name) const;
  [[noreturn]] static void throw_wrong_type(const std::string& name, const Json& value, const char* wanted);

  template <class T>
  static T convert(const std::string& name, const Json& value) {
    if constexpr (std::is_same_v<T, bool>) {
      if (!value.is_boolean()) throw_wrong_type(name, value, "true or false");
    } else if constexpr (std::is_integral_v<T>) {
      if (!value.is_number_integer()) throw_wrong_type(name, value, "an integer");
      const bool fits =
          value.is_number_unsigned() ? std::in_range<T>(value.get<uint64_t>()) : std::in_range<T>(value.get<int64_t>());
      if (!fits) throw_wrong_type(name, value, "an integer in the range of the type asked for");
    } else if constexpr (std::is_floating_point_v<T>) {
      if (!value.is_number()) throw_wrong_type(name, value, "a number");
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!value.is_string()) throw_wrong_type(name, value, "a string");
    }
    try {
      return value.get<T>();
    } catch (const Json::exception&) {
      throw_wrong_type(name, value, "another type");
    }
  }

  Json values_ = Json::object();
};

/// The values that TorchTrainerOptions::train_loop_config passes to the train loop.
using Config = Dictionary;
/// The metrics that a worker passes to report(): numbers, strings, nested objects.
using Metrics = Dictionary;

}  // namespace paceline
