#include <algorithm>
#include <cmath>
#include <limits>

#include "paceline/policy/report_book.h"

namespace paceline::policy {
namespace {

using Numbers = std::vector<const Json*>;
using Wide = __int128;  // has room for the sum of any ranks' integers

Wide wide(const Json& integer) {
  return integer.is_number_unsigned() ? Wide{integer.get<uint64_t>()} : Wide{integer.get<int64_t>()};
}

// JSON's integers are those of 64 bits, with a sign or without; beyond, a floating-point number.
Json narrow(Wide integer) {
  using Signed = std::numeric_limits<int64_t>;
  if (integer < Signed::min() || integer > std::numeric_limits<uint64_t>::max()) return static_cast<double>(integer);
  if (integer > Signed::max()) return static_cast<uint64_t>(integer);
  return static_cast<int64_t>(integer);
}

Json reduced_integers(const Numbers& numbers, const std::string& reduce) {
  Wide low = wide(*numbers.front());
  Wide high = low;
  Wide sum = 0;
  for (const Json* number : numbers) {
    low = std::min(low, wide(*number));
    high = std::max(high, wide(*number));
    sum += wide(*number);
  }
  if (reduce == "sum") return narrow(sum);
  if (reduce == "mean" && low != high) return static_cast<double>(sum) / static_cast<double>(numbers.size());
  return narrow(reduce == "max" ? high : low);  // the mean of equal ones, an epoch or a step, stays an integer
}

Json reduced(const Numbers& numbers, const std::string& reduce) {
  if (std::ranges::all_of(numbers, [](const Json* number) { return number->is_number_integer(); })) {
    return reduced_integers(numbers, reduce);
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
