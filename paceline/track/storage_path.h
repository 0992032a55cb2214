// Storage paths: folders and URIs below which runs are. Pure.
#pragma once

#include <string>
#include <vector>

namespace paceline::track {

/// Whether a run at `location`, as RunRow has it, is below one of the storage paths; without any, it is.
bool is_below(const std::string& location, const std::vector<std::string>& storage_paths);

}  // namespace paceline::track
