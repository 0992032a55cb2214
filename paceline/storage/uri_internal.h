// The little that locations and local paths need of URIs.
#pragma once

#include <string>
#include <string_view>

namespace paceline::storage {

/// The scheme of local folders that are written as URIs; all others are object stores' (objects/scheme.h).
inline constexpr std::string_view kLocalScheme = "file";
/// The scheme of file systems that the program brings with it (objects/custom.h): what stands before the '@' is no part
/// of a location's text.
inline constexpr std::string_view kCustomScheme = "custom";

/// "S3://bucket" → "s3"; "" for a text that does not start with a scheme and "://".
std::string scheme_name(std::string_view text);
/// "custom://id@type/a%20b?c=d" → "a b": what follows the host.
std::string path_in_uri(std::string_view uri);
/// "%20" → " ".
std::string decode_percent(std::string_view text);
/// " " → "%20"; letters, digits and "-._~/" stay.
std::string encode_percent(std::string_view text);

}  // namespace paceline::storage
