#include "paceline/launch/error_file.h"

#include "paceline/core/json.h"

namespace paceline::launch {

std::optional<rpc::Failed> parse_error_file(std::string_view text) {
  const auto json = decode_json(text);
  if (!json.ok() || !json->is_object()) return std::nullopt;
  Json message = json->value("message", Json());
  if (message.is_object()) message = message.value("message", Json());
  if (!message.is_string()) return std::nullopt;
  const auto whole = message.get<std::string>();
  const size_t colon = whole.find(": ");
  const bool has_type = colon != std::string::npos && whole.find(' ') > colon;
  if (!has_type) return rpc::Failed{.text = whole};
  return rpc::Failed{.kind = whole.substr(0, colon), .text = whole.substr(colon + 2)};
}

}  // namespace paceline::launch
