// Storage proof: every worker shows that it sees the storage that the driver writes, before it trains.
//
// The driver writes the same random text to a file `.storage_proof` in a folder of the run's and in its object store,
// and tells workers the text. On another machine a folder of the same name, or other credentials, would otherwise be
// noticed with the first checkpoint only.
#pragma once

#include <arrow/result.h>

#include <string>

#include "paceline/storage/storage.h"

namespace paceline::storage {

/// Writes a new proof; `objects` is null for a run in a local folder. Gives the text.
arrow::Result<std::string> write_storage_proof(const std::string& folder, Storage* objects);
/// IOError naming the place where the proof is missing or has another text. `location` is the run's folder or its URI.
arrow::Status check_storage_proof(const std::string& folder, const Location& location, const std::string& wanted);
/// Of the local folder alone.
arrow::Status check_folder_proof(const std::string& folder, const std::string& wanted);
/// Of the object store alone.
arrow::Status check_object_proof(const Location& uri, const std::string& wanted);

}  // namespace paceline::storage
