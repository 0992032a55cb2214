// Whole files as a source: each is a row of the column `bytes`, as images and sounds are read.
//
// Small files that follow each other are one chunk, so that an epoch does not have as many chunks as files; those of
// one chunk are read at the same time.
#pragma once

#include <arrow/filesystem/type_fwd.h>

#include "paceline/data/source/source.h"

namespace paceline::data {

struct BinaryOptions {
  /// Adds the column `path` (string): as the file system has it. A path that is not UTF-8 is then an error.
  bool include_paths = false;
  /// A chunk takes files until it has this many bytes, and at least one file.
  int64_t chunk_bytes = int64_t{8} << 20;
};

/// `bytes` is large_binary. Reads nothing before rows are asked for. Messages name the file.
///
///     ARROW_ASSIGN_OR_RAISE(auto files, list_files(*file_system, {"images"}, {.file_extensions = {"jpg", "png"}}));
///     ARROW_ASSIGN_OR_RAISE(auto source, binary_source(file_system, files, {.include_paths = true}));
arrow::Result<std::unique_ptr<Source>> binary_source(std::shared_ptr<arrow::fs::FileSystem> file_system,
                                                     std::vector<arrow::fs::FileInfo> files,
                                                     const BinaryOptions& options = {});

}  // namespace paceline::data
