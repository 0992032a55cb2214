// What values a setting may take, as a check and as the words of an error message.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "paceline/core/json.h"

namespace paceline {

/// Checks the JSON form of a value. Null (an optional that is not set) always passes.
struct Constraint {
  std::function<bool(const Json&)> allows;
  /// Completes the sentence "allowed: …".
  std::string words;
};

Constraint any_value();
Constraint at_least(double low);
Constraint more_than(double low);
/// Both ends excluded.
Constraint between(double low, double high);
/// Both ends included.
Constraint from_to(double low, double high);
Constraint one_of(std::vector<std::string> names);
/// A string that is the path of a folder below another: names joined by '/', none of them empty, "." or "..", and with
/// no byte that is zero.
Constraint folder_below();
/// Names and values of environment variables: no name is empty or has a '='.
Constraint variables();

}  // namespace paceline
