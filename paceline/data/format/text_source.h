// Text files as a source: each line is a row of the column `text`.
//
// Chunks are byte ranges that begin and end with lines, so that a large file is read by many at once; how many rows one
// has is known when it is read. Files that end with .gz, .zst, .bz2 or .lz4 are decompressed, and are a chunk each.
#pragma once

#include <arrow/filesystem/type_fwd.h>

#include "paceline/data/source/bad_rows.h"
#include "paceline/data/source/source.h"

namespace paceline::data {

struct TextOptions {
  /// Leaves out lines without a character. A "\r" before the "\n" is part of the line's end.
  bool drop_empty_lines = true;
  /// What becomes of lines that are not UTF-8; a null pointer where they are errors.
  std::shared_ptr<BadRows> bad_rows;
  /// Bytes of a file that one chunk has; its last line may go on beyond.
  int64_t chunk_bytes = int64_t{8} << 20;
};

/// Reads the first block of the first file that is not empty. Files must be UTF-8; what is not is an error when it is
/// read. Messages name the file.
///
///     ARROW_ASSIGN_OR_RAISE(auto source, text_source(place.file_system, files));
arrow::Result<std::unique_ptr<Source>> text_source(std::shared_ptr<arrow::fs::FileSystem> file_system,
                                                   std::vector<arrow::fs::FileInfo> files,
                                                   const TextOptions& options = {});

}  // namespace paceline::data
