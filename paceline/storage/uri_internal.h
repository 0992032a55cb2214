// The little that locations and local paths need of URIs.
#pragma once

#include <string>
#include <string_view>

namespace paceline::storage {

/// Whether `text` starts with "scheme://".
bool has_scheme(std::string_view text);
/// "%20" → " ".
std::string decode_percent(std::string_view text);
/// " " → "%20"; letters, digits and "-._~/" stay.
std::string encode_percent(std::string_view text);

}  // namespace paceline::storage
