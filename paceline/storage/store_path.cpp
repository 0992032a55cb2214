#include "paceline/storage/store_path.h"

#include <arrow/filesystem/filesystem.h>

#include <algorithm>
#include <string_view>

#include "paceline/storage/objects/scheme.h"
#include "paceline/storage/uri_internal.h"

namespace paceline::storage {
namespace {

// Of "s3://user@bucket/a?options": what stands around the path, and the path with the host.
struct Sides {
  std::string around;
  std::string_view path;
};

Sides sides_of(std::string_view uri) {
  const size_t question = std::min(uri.find('?'), uri.size());
  const std::string_view options = uri.substr(question);
  uri = uri.substr(0, question);
  size_t begin = std::min(uri.find("://") + 3, uri.size());
  if (const size_t at = uri.find('@', begin); at < uri.find('/', begin)) begin = at + 1;
  return {std::string(uri.substr(0, begin)) + std::string(options), uri.substr(begin)};
}

std::optional<std::string_view> below(std::string_view path, std::string_view folder) {
  if (path == folder) return "";
  if (folder.ends_with('/')) folder.remove_suffix(1);  // the root
  if (!path.starts_with(folder) || !path.substr(folder.size()).starts_with('/')) return std::nullopt;
  return path.substr(folder.size() + 1);
}

}  // namespace

arrow::Result<std::string> path_in_store(const Location& location) {
  if (!location.is_uri()) return location.text();
  const std::string& full = location.with_credentials();
  const Scheme* const scheme = scheme_of(full);
  if (scheme == nullptr) return arrow::Status::Invalid(location, " is no location of an object store");
  if (scheme->is_custom) return path_in_uri(full);
  if (!scheme->has_host) return decode_percent(sides_of(full).path);  // without asking the network for the bucket
  std::string path;
  const arrow::Status opened = scheme->open(full, &path).status();
  if (opened.ok()) return path;
  return opened.WithMessage("opening ", location, ": ", location.redacted(opened.message()));
}

std::optional<std::string> part_below(const Location& location, const Location& base) {
  if (location.is_uri() != base.is_uri()) return std::nullopt;
  if (!base.is_uri()) {
    const auto part = below(location.text(), base.text());
    return part ? std::optional(std::string(*part)) : std::nullopt;
  }
  const Sides inner = sides_of(location.with_credentials()), outer = sides_of(base.with_credentials());
  const auto part = inner.around == outer.around ? below(inner.path, outer.path) : std::nullopt;
  return part ? std::optional(decode_percent(*part)) : std::nullopt;
}

}  // namespace paceline::storage
