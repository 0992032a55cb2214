#include "paceline/storage/location.h"

#include <algorithm>

#include "paceline/storage/local/durable.h"
#include "paceline/storage/objects/scheme.h"
#include "paceline/storage/uri_internal.h"

namespace paceline::storage {
namespace {

// "s3://user:password@host/path?options": the parts with their separators.
struct Parts {
  std::string_view scheme;   // "s3"
  std::string_view user;     // "user:password@"
  std::string_view path;     // "host/path"
  std::string_view options;  // "?options"
};

Parts split(std::string_view uri) {
  Parts parts;
  const size_t colon = uri.find("://");
  parts.scheme = uri.substr(0, colon);
  std::string_view rest = uri.substr(colon + 3);
  const size_t question = std::min(rest.find('?'), rest.size());
  parts.options = rest.substr(question);
  rest = rest.substr(0, question);
  const size_t at = rest.substr(0, rest.find('/')).rfind('@');
  if (at != std::string_view::npos) {
    parts.user = rest.substr(0, at + 1);
    rest = rest.substr(at + 1);
  }
  parts.path = rest;
  return parts;
}

}  // namespace

bool is_uri(std::string_view location) {
  const std::string scheme = scheme_name(location);
  return !scheme.empty() && scheme != kLocalScheme;
}

arrow::Result<std::string> resolve_location(std::string_view text, const std::string& directory) {
  if (!is_uri(text)) return resolve_folder(text, directory);
  const Scheme* const scheme = scheme_of(text);
  if (scheme == nullptr) {
    return arrow::Status::Invalid("the scheme of \"", without_secrets(std::string(text)),
                                  "\" is not supported; use a local path, ", written_forms());
  }
  Parts parts = split(text);
  while (parts.path.ends_with('/')) parts.path.remove_suffix(1);
  if (parts.path.empty()) {
    return arrow::Status::Invalid("\"", without_secrets(std::string(text)), "\" names no bucket; write ",
                                  scheme->written);
  }
  return scheme_name(text) + "://" + std::string(parts.user) + std::string(parts.path) + std::string(parts.options);
}

std::string join(const std::string& location, const std::string& name) {
  if (!is_uri(location)) return location == "/" ? "/" + name : location + "/" + name;
  const size_t question = std::min(location.find('?'), location.size());
  return location.substr(0, question) + "/" + encode_percent(name) + location.substr(question);
}

std::string last_part(const std::string& location) {
  if (!is_uri(location)) return location.substr(location.rfind('/') + 1);
  const std::string_view path = split(location).path;
  return decode_percent(path.substr(path.rfind('/') + 1));
}

std::string without_secrets(const std::string& location) {
  if (!is_uri(location)) return location;
  const Parts parts = split(location);
  std::string shown = std::string(parts.scheme) + "://";
  const size_t colon = parts.user.find(':');
  shown += colon == std::string_view::npos ? std::string(parts.user) : std::string(parts.user.substr(0, colon)) + ":…@";
  shown += parts.path;
  const Scheme* const scheme = scheme_of(location);
  const auto is_open = [&](std::string_view option) {
    return scheme != nullptr && std::ranges::find(scheme->open_options, option) != scheme->open_options.end();
  };
  std::string_view rest = parts.options;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('&', 1), rest.size());
    const std::string_view option = rest.substr(0, end);
    const size_t equals = std::min(option.find('='), option.size());
    const std::string_view name = option.substr(1, equals - 1);
    shown += is_open(name) ? std::string(option) : std::string(option.substr(0, equals)) + "=…";
    rest = rest.substr(end);
  }
  return shown;
}

}  // namespace paceline::storage
