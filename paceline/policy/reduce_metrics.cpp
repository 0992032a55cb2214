#include <algorithm>
#include <cmath>

#include "paceline/policy/report_book.h"

namespace paceline::policy {
namespace {

using Numbers = std::vector<const Json*>;

// Nothing when the sum has no room in 64 bits.
std::optional<Json> reduced_integers(const Numbers& numbers, const std::string& reduce) {
  int64_t result = numbers.front()->get<int64_t>();
  for (size_t i = 1; i < numbers.size(); ++i) {
    const auto value = numbers[i]->get<int64_t>();
    if (reduce == "sum") {
      if (__builtin_add_overflow(result, value, &result)) return std::nullopt;
    } else {
      result = reduce == "min" ? std::min(result, value) : std::max(result, value);
    }
  }
  return result;
}

Json reduced(const Numbers& numbers, const std::string& reduce) {
  const bool integers = std::ranges::all_of(numbers, [](const Json* number) { return number->is_number_integer(); });
  const auto equals_first = [&](const Json* number) { return *number == *numbers.front(); };
  if (integers && reduce == "mean" && std::ranges::all_of(numbers, equals_first)) {
    return *numbers.front();  // an epoch or a step stays an integer
  }
  if (integers && reduce != "mean") {
    if (const auto result = reduced_integers(numbers, reduce)) return *result;
  }
  double result = numbers.front()->get<double>();
  for (size_t i = 1; i < numbers.size(); ++i) {
    const auto value = numbers[i]->get<double>();
    if (reduce == "mean" || reduce == "sum") {
      result += value;
    } else if (std::isnan(value)) {
      result = value;  // a NaN on any rank is what the user must see
    } else if (!std::isnan(result)) {
      result = reduce == "min" ? std::min(result, value) : std::max(result, value);
    }
  }
  return reduce == "mean" ? result / static_cast<double>(numbers.size()) : result;
}

void reduce_objects(const std::vector<Json*>& objects, const std::string& reduce) {
  std::map<std::string, std::vector<Json*>> values;
  for (Json* object : objects) {
    for (auto& [name, value] : object->items()) values[name].push_back(&value);
  }
  for (auto& [name, same_name] : values) {
    std::vector<Json*> nested;
    std::vector<Json*> targets;
    for (Json* value : same_name) {
      if (value->is_object()) nested.push_back(value);
      if (value->is_number()) targets.push_back(value);
    }
    if (!nested.empty()) reduce_objects(nested, reduce);
    if (targets.empty()) continue;
    const Json result = reduced(Numbers(targets.begin(), targets.end()), reduce);
    for (Json* target : targets) *target = result;
  }
}

}  // namespace

void reduce_metrics(std::vector<std::optional<Json>>& metrics, const std::string& reduce) {
  std::vector<Json*> objects;
  for (std::optional<Json>& rank : metrics) {
    if (rank && rank->is_object()) objects.push_back(&*rank);
  }
  reduce_objects(objects, reduce);
}

}  // namespace paceline::policy
