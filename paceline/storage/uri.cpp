#include <algorithm>
#include <cctype>

#include "paceline/storage/uri_internal.h"

namespace paceline::storage {
namespace {

int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  const char lower = static_cast<char>(std::tolower(static_cast<unsigned char>(digit)));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

std::string scheme_name(std::string_view text) {
  const size_t end = text.find("://");
  if (end == std::string_view::npos || end == 0 || !std::isalpha(static_cast<unsigned char>(text[0]))) return "";
  std::string name;
  for (const char letter : text.substr(0, end)) {
    if (!std::isalnum(static_cast<unsigned char>(letter)) && letter != '+' && letter != '-' && letter != '.') return "";
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return name;
}

std::string path_in_uri(std::string_view uri) {
  uri = uri.substr(std::min(uri.find("://") + 3, uri.size()));
  uri = uri.substr(0, uri.find('?'));
  const size_t slash = uri.find('/');
  return slash == std::string_view::npos ? "" : decode_percent(uri.substr(slash + 1));
}

std::string decode_percent(std::string_view text) {
  std::string decoded;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool escaped =
        text[at] == '%' && at + 2 < text.size() && hex_digit(text[at + 1]) >= 0 && hex_digit(text[at + 2]) >= 0;
    decoded += escaped ? static_cast<char>(16 * hex_digit(text[at + 1]) + hex_digit(text[at + 2])) : text[at];
    if (escaped) at += 2;
  }
  return decoded;
}

std::string encode_percent(std::string_view text) {
  constexpr std::string_view kPlain = "-._~/";
  constexpr const char* kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < 0x80 && (std::isalnum(byte) || kPlain.find(letter) != std::string_view::npos)) {
      encoded += letter;
    } else {
      encoded.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
  return encoded;
}

}  // namespace paceline::storage
