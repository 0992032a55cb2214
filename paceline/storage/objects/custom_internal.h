// How a custom file system is opened: the one that was added in this process.
#pragma once

#include <arrow/filesystem/filesystem.h>

#include <memory>
#include <string>

namespace paceline::storage {

/// Scheme::open of "custom". Invalid for a file system that this process was not given.
arrow::Result<std::shared_ptr<arrow::fs::FileSystem>> open_custom(const std::string& uri, std::string* path);

}  // namespace paceline::storage
