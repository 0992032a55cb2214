// JSON values as the control plane writes and reads them: nlohmann-json, with nothing lost that C++ can hold.
//
// JSON has no NaN and no infinity, but losses do; its text is UTF-8, but the names of files need not be. encode_json()
// writes such a number as {"$number": "nan" | "inf" | "-inf"}, such a text as {"$bytes": "hexadecimal"}, and
// decode_json() turns them back, at any depth. Names in objects stay text: there what is not UTF-8 is replaced.
// Thread-safe: no state.
#pragma once

#include <arrow/result.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace paceline {

/// A JSON value: nlohmann-json's, with its functions.
using Json = nlohmann::json;

/// Text of `value` on one line. Never an error.
std::string encode_json(const Json& value);

/// The same for people to read: numbers that are not finite are nan, inf and -inf. Not to be decoded.
std::string readable_json(const Json& value);

/// The value that encode_json() wrote. Invalid when `text` is not JSON, where the message quotes where, or nested
/// deeper than kDeepestJson: whatever goes through a value calls itself, and a text of any depth would overflow the
/// stack.
arrow::Result<Json> decode_json(std::string_view text);

/// Whether `text` is valid UTF-8.
bool is_utf8(const std::string& text);

/// How deep arrays and objects in a text may be.
inline constexpr int kDeepestJson = 200;
/// Whether decode_json() would refuse, for its depth, the text of a value that holds this one `levels` further down:
/// what users give is refused before it is written.
bool is_too_deep(const Json& value, int levels = 0);

}  // namespace paceline
