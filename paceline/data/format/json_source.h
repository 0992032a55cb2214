// Files of JSON lines as a source: each line is an object, and a row.
//
// Chunks are byte ranges that begin and end with lines; how many rows one has is known when it is read. Files that end
// with .gz, .zst, .bz2 or .lz4 are decompressed, and are a chunk each.
#pragma once

#include <arrow/filesystem/type_fwd.h>

#include "paceline/data/source/bad_rows.h"
#include "paceline/data/source/source.h"

namespace paceline::data {

struct JsonOptions {
  /// Columns whose types are not to be found by what is in them; null for none.
  std::shared_ptr<arrow::Schema> column_types;
  /// Leaves out what the first block does not have, and `column_types` neither; otherwise it is an error.
  bool ignore_other_fields = false;
  /// What becomes of lines that are no object, or whose values do not fit; a null pointer where they are errors.
  std::shared_ptr<BadRows> bad_rows;
  /// Bytes of a file that one chunk has; its last line may go on beyond.
  int64_t chunk_bytes = int64_t{8} << 20;
};

/// Reads samples of all files, which say what columns there are and what types they have (line_types_internal.h). A row
/// that lacks a column, or is null itself, has null there. What does not fit in other rows is an error when it is read,
/// which names the file and says how to give types; so is a row that is nested too deeply. An object may not go over
/// several lines. Invalid where no file begins with a row and no columns are given.
///
///     ARROW_ASSIGN_OR_RAISE(auto source, json_source(file_system, files));
arrow::Result<std::unique_ptr<Source>> json_source(std::shared_ptr<arrow::fs::FileSystem> file_system,
                                                   std::vector<arrow::fs::FileInfo> files,
                                                   const JsonOptions& options = {});

}  // namespace paceline::data
