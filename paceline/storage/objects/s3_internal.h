// How S3 is opened. Arrow's S3 is loaded, and its threads started, with the first such URI of the process; it is
// finalized at exit(). Single requests are tried again a few times; the rest is retrying_storage.h's.
#pragma once

#include <arrow/filesystem/filesystem.h>

#include <memory>
#include <string>

namespace paceline::storage {

/// Scheme::open of "s3". Thread-safe.
arrow::Result<std::shared_ptr<arrow::fs::FileSystem>> open_s3(const std::string& uri, std::string* path);

}  // namespace paceline::storage
