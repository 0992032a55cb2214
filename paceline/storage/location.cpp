#include "paceline/storage/location.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "paceline/storage/local/durable.h"
#include "paceline/storage/objects/scheme.h"
#include "paceline/storage/uri_internal.h"

namespace paceline::storage {
namespace {

constexpr std::string_view kLeftOut = "…";

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

// "KEY:SEC/RET@bucket": what stands behind the colon is no port, but the beginning of a key that is not escaped. Keys
// begin with digits, too.
bool has_torn_key(const Parts& parts) {
  const std::string_view host = parts.path.substr(0, parts.path.find('/'));
  const size_t colon = host.find(':');
  if (colon == std::string_view::npos || host.starts_with('[')) return false;
  const Scheme* const scheme = scheme_of(std::string(parts.scheme) + "://");
  const bool may_be_port = scheme == nullptr || scheme->has_host;
  return !may_be_port || parts.path.find('@') != std::string_view::npos ||
         host.find_first_not_of("0123456789", colon + 1) != std::string_view::npos;
}

std::string_view through_colon(std::string_view text) {
  return text.substr(0, text.find(':') + 1);
}

// "?a=1&b=2" → "?a=1", "&b=2".
std::vector<std::string_view> split_options(std::string_view options) {
  std::vector<std::string_view> all;
  while (!options.empty()) {
    const size_t end = std::min(options.find('&', 1), options.size());
    all.push_back(options.substr(0, end));
    options = options.substr(end);
  }
  return all;
}

// The option with its value's place; all of one whose value may be shown.
std::string_view shown_part(const Scheme* scheme, std::string_view option) {
  const size_t equals = option.find('=');
  if (equals == std::string_view::npos) return option.substr(0, 1);
  const std::string_view name = option.substr(1, equals - 1);
  const bool is_open = scheme != nullptr && std::ranges::find(scheme->open_options, name) != scheme->open_options.end();
  // "http://user:password@host"
  const bool names_user = option.find('@') != std::string_view::npos || option.find("%40") != std::string_view::npos;
  return is_open && !names_user ? option : option.substr(0, equals + 1);
}

std::string without_keys(const std::string& uri) {
  const Parts parts = split(uri);
  const Scheme* const scheme = scheme_of(uri);
  std::string shown = std::string(parts.scheme) + "://";
  const auto append = [&shown](std::string_view text, std::string_view of) {
    shown += text;
    if (text.size() < of.size()) shown += kLeftOut;
  };
  if (parts.scheme == kCustomScheme) {
    // Who is in front is for the processes of one run.
  } else if (parts.user.find(':') == std::string_view::npos) {
    shown += parts.user;
  } else {
    shown += std::string(through_colon(parts.user)) + std::string(kLeftOut) + "@";
  }
  append(has_torn_key(parts) ? through_colon(parts.path) : parts.path, parts.path);
  for (const std::string_view option : split_options(parts.options)) append(shown_part(scheme, option), option);
  return shown;
}

// What without_keys() leaves out.
std::vector<std::string_view> keys_of(const std::string& uri) {
  const Parts parts = split(uri);
  std::vector<std::string_view> keys;
  if (parts.scheme == kCustomScheme) keys.push_back(parts.user);
  if (const size_t colon = parts.user.find(':'); colon != std::string_view::npos) {
    keys.push_back(parts.user.substr(colon + 1, parts.user.size() - colon - 2));
  }
  if (has_torn_key(parts)) keys.push_back(parts.path.substr(through_colon(parts.path).size()));
  const Scheme* const scheme = scheme_of(uri);
  for (const std::string_view option : split_options(parts.options)) {
    keys.push_back(option.substr(shown_part(scheme, option).size()));
  }
  return keys;
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  constexpr size_t kShortest = 4;  // no key is as short, and a message is full of shorter ones
  if (what.size() < kShortest) return;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
}

}  // namespace

Location::Location(std::string full) : full_(std::move(full)), text_(is_uri() ? without_keys(full_) : full_) {}

bool Location::lacks_credentials() const {
  if (!is_uri() || text_ != full_) return false;
  return full_.find(kLeftOut) != std::string::npos || scheme_name(full_) == kCustomScheme;
}

std::string Location::redacted(std::string message) const {
  if (text_ == full_) return message;
  replace_all(message, full_, text_);
  for (const std::string_view key : keys_of(full_)) {
    replace_all(message, key, kLeftOut);
    replace_all(message, decode_percent(key), kLeftOut);
  }
  return message;
}

bool Location::is_uri() const {
  return storage::is_uri(full_);
}

std::ostream& operator<<(std::ostream& stream, const Location& location) {
  return stream << location.text_;
}

void to_json(nlohmann::json& json, const Location& location) {
  json = location.text_;
}

bool is_uri(std::string_view location) {
  const std::string scheme = scheme_name(location);
  return !scheme.empty() && scheme != kLocalScheme;
}

namespace {

// " s3://…", "s3:/…": a folder of that name would have the keys in it, for all to see.
arrow::Status check_not_meant_as_uri(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t\n\"'"), text.size());
  const size_t colon = std::min(text.find(':', begin), text.size());
  const Scheme* const scheme = scheme_of(std::string(text.substr(begin, colon - begin)) + "://");
  if (scheme == nullptr || colon == text.size() || text.substr(colon, 2) != ":/") return arrow::Status::OK();
  return arrow::Status::Invalid("what begins with \"", text.substr(begin, colon - begin), ":/\" is neither a place in ",
                                scheme->service, ", which is written ", scheme->written,
                                " without a blank before it, nor a folder; a folder of that name is ./",
                                text.substr(begin, colon - begin), ":/…");
}

}  // namespace

arrow::Result<Location> resolve_location(std::string_view text, const std::string& directory) {
  if (!is_uri(text)) {
    ARROW_RETURN_NOT_OK(check_not_meant_as_uri(text));
    return resolve_folder(text, directory);
  }
  const Location written(text);
  const Scheme* const scheme = scheme_of(text);
  if (scheme == nullptr) {
    return arrow::Status::Invalid("the scheme of \"", written, "\" is not supported; use a local path, ",
                                  written_forms());
  }
  Parts parts = split(text);
  if (has_torn_key(parts)) {
    return arrow::Status::Invalid(
        "\"", written,
        "\" has a key with a character that means something in a URI; write %2F for /, %3F for "
        "?, %40 for @, or give keys in the environment");
  }
  while (parts.path.ends_with('/')) parts.path.remove_suffix(1);
  if (parts.path.empty()) {
    return arrow::Status::Invalid("\"", written, "\" names no bucket; write ", scheme->written);
  }
  return Location(scheme_name(text) + "://" + std::string(parts.user) + std::string(parts.path) +
                  std::string(parts.options));
}

arrow::Result<Location> resolve_here(std::string_view text) {
  std::error_code error;
  const std::string here = std::filesystem::current_path(error).string();
  const bool is_relative = !text.starts_with('/') && !text.starts_with('~') && scheme_name(text).empty();
  if (error && is_relative) {
    return arrow::Status::IOError("cannot resolve ", text, ": the current directory is gone (", error.message(),
                                  "); give an absolute path");
  }
  return resolve_location(text, here);
}

Location join(const Location& location, const std::string& name) {
  const std::string& full = location.with_credentials();
  if (!location.is_uri()) return full == "/" ? "/" + name : full + "/" + name;
  const size_t question = std::min(full.find('?'), full.size());
  return full.substr(0, question) + "/" + encode_percent(name) + full.substr(question);
}

std::string last_part(const Location& location) {
  const std::string& full = location.with_credentials();
  if (!location.is_uri()) return full.substr(full.rfind('/') + 1);
  const std::string_view path = split(full).path;
  return decode_percent(path.substr(path.rfind('/') + 1));
}

}  // namespace paceline::storage
