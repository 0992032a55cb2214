// JSON values as the control plane writes and reads them: nlohmann-json, with non-finite numbers kept.
//
// JSON has no NaN and no infinity, but losses do. encode_json() writes such a number as {"$number": "nan" | "inf" |
// "-inf"} and decode_json() turns it back, at any depth. Thread-safe: no state.
#pragma once

#include <arrow/result.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace paceline {

using Json = nlohmann::json;

/// Text of `value` on one line, non-finite numbers kept. Invalid UTF-8 is replaced, never an error.
std::string encode_json(const Json& value);

/// The value that encode_json() wrote. Invalid when `text` is not JSON; the message quotes where.
arrow::Result<Json> decode_json(std::string_view text);

}  // namespace paceline
