// The tables of the run store and how earlier versions become the present one.
#pragma once

#include <string>

#include "paceline/track/sqlite_internal.h"

namespace paceline::track {

/// Makes the tables of a new store, or those that were added since its version. Invalid for a later version.
arrow::Status migrate(const Database& database, const std::string& path);
/// Invalid for another version than this program's. For readers, who change nothing.
arrow::Status check_version(const Database& database, const std::string& path);

}  // namespace paceline::track
