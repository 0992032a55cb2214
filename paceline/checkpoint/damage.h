// What the files of a checkpoint lack of what its manifest says. That they cannot be read at the moment (no permission,
// a store that does not answer) is no damage.
//
// Every function gives an IOError.
#pragma once

#include <arrow/status.h>

#include <cstdint>
#include <string>

namespace paceline::checkpoint {

/// `file`: its path or URI.
arrow::Status missing_file(const std::string& file, int64_t wanted_bytes);
arrow::Status wrong_size(const std::string& file, int64_t got, int64_t wanted);
arrow::Status wrong_checksum(const std::string& file, const std::string& got, const std::string& wanted);
/// What it names lies elsewhere.
arrow::Status is_link(const std::string& file);
/// Of its manifest.
arrow::Status no_manifest(const std::string& message);

/// Whether it is one of these.
bool is_damage(const arrow::Status& status);

}  // namespace paceline::checkpoint
