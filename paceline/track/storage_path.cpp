#include "paceline/track/storage_path.h"

#include <algorithm>
#include <string_view>

namespace paceline::track {

namespace {

// A URI ends with its options: "s3://bucket/runs?region=eu-west-1".
std::string_view without_options(std::string_view location) {
  return location.find("://") == std::string_view::npos ? location : location.substr(0, location.find('?'));
}

}  // namespace

bool is_below(const std::string& location, const std::vector<std::string>& storage_paths) {
  if (storage_paths.empty()) return true;
  const std::string_view run = without_options(location);
  return std::ranges::any_of(storage_paths, [run](const std::string& text) {
    const std::string_view path = without_options(text);
    return run == path || (run.starts_with(path) && (path.ends_with('/') || run[path.size()] == '/'));
  });
}

}  // namespace paceline::track
