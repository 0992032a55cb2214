// What users write as a storage path, turned into an absolute folder.
#include <filesystem>

#include "paceline/core/state_directory.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/uri_internal.h"

namespace paceline::storage {
namespace {

constexpr const char* kWhatWorks = "use an absolute path, a path relative to the program's directory, ~/… or file:///…";

arrow::Result<std::string> home_folder() {
  if (std::string home = home_directory(); home.starts_with('/')) return home;
  return arrow::Status::Invalid("\"~\" cannot be resolved: HOME is not set; give an absolute path");
}

// Without empty and "." components; ".." stays, since through a link it means another folder.
std::string without_noise(const std::string& absolute) {
  std::filesystem::path path = "/";
  for (const auto& part : std::filesystem::path(absolute)) {
    if (part != "." && part != "/" && !part.empty()) path /= part;
  }
  return path.string();
}

}  // namespace

arrow::Result<std::string> resolve_folder(std::string_view text, const std::string& directory) {
  std::string path(text);
  const std::string scheme = scheme_name(text);
  if (scheme == kLocalScheme) {
    path = decode_percent(text.substr(text.find("://") + 3));
    if (path.starts_with("localhost/")) path = path.substr(std::string_view("localhost").size());
    if (!path.starts_with('/')) {
      return arrow::Status::Invalid("\"", text, "\" names another host; file:// needs an absolute path: file:///…");
    }
  } else if (!scheme.empty()) {
    return arrow::Status::Invalid("the scheme of \"", text, "\" is not supported; ", kWhatWorks);
  }
  if (path.empty()) return arrow::Status::Invalid("the path of a folder is empty; ", kWhatWorks);
  if (path.find('\0') != std::string::npos) return arrow::Status::Invalid("the path of a folder has a zero byte");
  if (path.starts_with('~')) {
    if (path.size() > 1 && path[1] != '/') {
      return arrow::Status::Invalid("\"", text, "\": other users' folders are not resolved; ", kWhatWorks);
    }
    ARROW_ASSIGN_OR_RAISE(const std::string home, home_folder());
    path = home + path.substr(1);
  }
  return without_noise(path.starts_with('/') ? path : directory + "/" + path);
}

}  // namespace paceline::storage
