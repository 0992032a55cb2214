#include "paceline/core/json.h"

#include <cmath>
#include <limits>

namespace paceline {
namespace {

constexpr const char* kNumberKey = "$number";

bool has_non_finite(const Json& value) {
  if (value.is_number_float()) return !std::isfinite(value.get<double>());
  if (!value.is_structured()) return false;
  for (const auto& item : value) {
    if (has_non_finite(item)) return true;
  }
  return false;
}

Json wrap_non_finite(const Json& value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    const double number = value.get<double>();
    return Json{{kNumberKey, std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf"}};
  }
  if (!value.is_structured()) return value;
  Json wrapped = value;
  for (auto& item : wrapped) item = wrap_non_finite(item);
  return wrapped;
}

void unwrap_non_finite(Json& value) {
  if (!value.is_structured()) return;
  if (value.is_object() && value.size() == 1 && value.begin().key() == kNumberKey && value.begin()->is_string()) {
    const auto& text = value.begin()->get_ref<const std::string&>();
    using Limits = std::numeric_limits<double>;
    if (text == "nan") {
      value = Limits::quiet_NaN();
    } else if (text == "inf") {
      value = Limits::infinity();
    } else if (text == "-inf") {
      value = -Limits::infinity();
    }
    return;
  }
  for (auto& item : value) unwrap_non_finite(item);
}

}  // namespace

std::string encode_json(const Json& value) {
  const auto dump = [](const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); };
  return has_non_finite(value) ? dump(wrap_non_finite(value)) : dump(value);
}

arrow::Result<Json> decode_json(std::string_view text) {
  try {
    Json value = Json::parse(text);
    if (text.find(kNumberKey) != std::string_view::npos) unwrap_non_finite(value);
    return value;
  } catch (const Json::exception& error) {
    return arrow::Status::Invalid("not JSON: ", error.what());
  }
}

}  // namespace paceline
