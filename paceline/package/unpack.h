// A package's files, put where processes find them.
#pragma once

#include <arrow/status.h>

#include <string>

#include "paceline/package/cache.h"
#include "paceline/package/manifest.h"

namespace paceline::package {

/// What becomes of a content in the folder.
enum class Content {
  shared,  ///< a hard link where one is possible: for what nobody changes, programs and libraries
  copied   ///< its own: for what users' code may write to
};

/// Puts all files into `folder`, which is made and must be empty. They must be in the cache. `manifest` has come
/// through decode(). IOError names the file.
arrow::Status unpack(const Manifest& manifest, const Cache& cache, const std::string& folder, Content content);

}  // namespace paceline::package
