#include "paceline/storage/objects/custom.h"

#include <arrow/filesystem/filesystem.h>

#include <cctype>
#include <map>
#include <mutex>

#include "paceline/storage/objects/custom_internal.h"
#include "paceline/storage/uri_internal.h"

namespace paceline::storage {
namespace {

struct Added {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<arrow::fs::FileSystem>> by_id;
};

// Never destroyed: threads may still read when static objects end.
Added& added() {
  static Added& all = *new Added;
  return all;
}

// "py::fsspec+('file', 'local')" → "fsspec+file-local".
std::string host_of(std::string_view type) {
  if (const size_t colons = type.rfind("::"); colons != std::string_view::npos) type = type.substr(colons + 2);
  std::string host;
  for (const char letter : type) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(letter)) || letter == '+';
    if (is_plain) {
      host += letter;
    } else if (!host.empty() && std::isalnum(static_cast<unsigned char>(host.back()))) {
      host += '-';
    }
  }
  while (host.ends_with('-')) host.pop_back();
  return host.empty() ? "custom" : host;
}

}  // namespace

void add_file_system(const std::string& id, std::shared_ptr<arrow::fs::FileSystem> system) {
  const std::lock_guard lock(added().mutex);
  added().by_id[id] = std::move(system);
}

Location custom_location(const std::string& id, const std::string& type, const std::string& path) {
  std::string_view folder = path;
  while (folder.ends_with('/')) folder.remove_suffix(1);
  return std::string(kCustomScheme) + "://" + id + "@" + host_of(type) + (folder.empty() ? "" : "/") +
         encode_percent(folder);
}

std::string custom_id(const Location& location) {
  const std::string& uri = location.with_credentials();
  if (scheme_name(uri) != kCustomScheme) return "";
  const size_t begin = uri.find("://") + 3;
  const size_t at = uri.find('@', begin);
  return at == std::string::npos || at > uri.find('/', begin) ? "" : uri.substr(begin, at - begin);
}

arrow::Result<std::shared_ptr<arrow::fs::FileSystem>> open_custom(const std::string& uri, std::string* path) {
  *path = path_in_uri(uri);
  const std::lock_guard lock(added().mutex);
  const auto found = added().by_id.find(custom_id(uri));
  if (found != added().by_id.end()) return found->second;
  return arrow::Status::Invalid(
      "this process was not given its file system: another one has made it; give it here too");
}

}  // namespace paceline::storage
