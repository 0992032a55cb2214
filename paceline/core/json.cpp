#include "paceline/core/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace paceline {
namespace {

constexpr const char* kNumberKey = "$number";
constexpr const char* kBytesKey = "$bytes";

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

std::string hex_of(const std::string& bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : bytes) hex += {kDigits[byte / 16], kDigits[byte % 16]};
  return hex;
}

// Nothing when `hex` is no sequence of bytes.
std::optional<std::string> bytes_of(std::string_view hex) {
  std::string bytes;
  for (; hex.size() >= 2; hex.remove_prefix(2)) {
    unsigned char byte = 0;
    const char* const last = hex.begin() + 2;
    const auto [end, error] = std::from_chars(hex.begin(), last, byte, 16);
    if (error != std::errc() || end != last) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return hex.empty() ? std::optional(bytes) : std::nullopt;
}

Json wrap_bytes(const Json& value) {
  if (value.is_string() && !is_utf8(value.get_ref<const std::string&>()))
    return Json{{kBytesKey, hex_of(value.get_ref<const std::string&>())}};
  if (!value.is_structured()) return value;
  Json wrapped = value;
  for (auto& item : wrapped) item = wrap_bytes(item);
  return wrapped;
}

// What a wrapped value stands for; nothing for an object of the user's own.
std::optional<Json> wrapped_value(const std::string& key, const std::string& text) {
  using Limits = std::numeric_limits<double>;
  if (key == kNumberKey && text == "nan") return Limits::quiet_NaN();
  if (key == kNumberKey && text == "inf") return Limits::infinity();
  if (key == kNumberKey && text == "-inf") return -Limits::infinity();
  if (key == kBytesKey) {
    if (auto bytes = bytes_of(text)) return std::move(*bytes);
  }
  return std::nullopt;
}

// Brackets in texts aside. What is no JSON may have any.
bool is_too_deep_text(std::string_view text) {
  int depth = 0;
  bool in_text = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (in_text) {
      if (letter == '\\') ++at;
      in_text = letter != '"';
    } else if (letter == '"') {
      in_text = true;
    } else if (letter == '[' || letter == '{') {
      if (++depth > kDeepestJson) return true;
    } else if (letter == ']' || letter == '}') {
      --depth;
    }
  }
  return false;
}

bool is_deeper_than(const Json& value, int levels) {
  if (!value.is_structured()) return false;
  if (levels == 0) return true;
  return std::ranges::any_of(value, [levels](const Json& item) { return is_deeper_than(item, levels - 1); });
}

void unwrap(Json& value) {
  if (!value.is_structured()) return;
  if (value.is_object() && value.size() == 1 && value.begin()->is_string()) {
    if (auto meant = wrapped_value(value.begin().key(), value.begin()->get_ref<const std::string&>())) {
      value = std::move(*meant);
    }
    return;
  }
  for (auto& item : value) unwrap(item);
}

}  // namespace

bool is_utf8(const std::string& text) {
  try {
    (void)Json(text).dump();  // strict by default
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

std::string encode_json(const Json& value) {
  Json wrapped;
  const bool is_finite = !has_non_finite(value);
  if (!is_finite) wrapped = wrap_non_finite(value);
  try {
    return (is_finite ? value : wrapped).dump();
  } catch (const Json::type_error&) {  // a text that is not UTF-8
    return wrap_bytes(is_finite ? value : wrapped).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

std::string readable_json(const Json& value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    return std::isnan(value.get<double>()) ? "nan" : value.get<double>() > 0 ? "inf" : "-inf";
  }
  if (!value.is_structured() || value.empty()) return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string text;
  for (const auto& [name, item] : value.items()) {
    text += text.empty() ? "" : ",";
    if (value.is_object()) text += readable_json(name) + ":";
    text += readable_json(item);
  }
  return value.is_array() ? "[" + text + "]" : "{" + text + "}";
}

bool is_too_deep(const Json& value, int levels) {
  return is_deeper_than(value, kDeepestJson - levels);
}

arrow::Result<Json> decode_json(std::string_view text) {
  if (is_too_deep_text(text))
    return arrow::Status::Invalid("the JSON is nested too deeply: wanted at most ", kDeepestJson, " levels");
  try {
    Json value = Json::parse(text);
    if (text.find(kNumberKey) != std::string_view::npos || text.find(kBytesKey) != std::string_view::npos) {
      unwrap(value);
    }
    return value;
  } catch (const Json::exception& error) {
    return arrow::Status::Invalid("not JSON: ", error.what());
  }
}

}  // namespace paceline
