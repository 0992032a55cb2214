// Paths in file systems: what a location is called by those who have its file system. Pure, but for Azure's, whose file
// system is made to ask it.
#pragma once

#include <arrow/result.h>

#include <optional>
#include <string>

#include "paceline/storage/location.h"

namespace paceline::storage {

/// The location's path in the file system that Arrow opens for it: "bucket/runs/run", without scheme, escapes and
/// options; that of a local folder as it is. Invalid for a URI that makes no sense.
arrow::Result<std::string> path_in_store(const Location& location);
/// "run/checkpoint_000042" of a location that is below `base`, "" for the same place, nothing for another one.
std::optional<std::string> part_below(const Location& location, const Location& base);

}  // namespace paceline::storage
