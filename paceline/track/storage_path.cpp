#include "paceline/track/storage_path.h"

#include <algorithm>

namespace paceline::track {

bool is_below(const std::string& location, const std::vector<std::string>& storage_paths) {
  if (storage_paths.empty()) return true;
  return std::ranges::any_of(storage_paths, [&location](const std::string& path) {
    return location == path || (location.starts_with(path) && (path.ends_with('/') || location[path.size()] == '/'));
  });
}

}  // namespace paceline::track
