// Arrow IPC files ("Feather", version 2) and streams as a source: each record batch is a chunk.
//
// Only the columns that are asked for are read. Files are not mapped into memory: whoever shortens one would end the
// program, and the pages would be read by who uses them, beyond any budget, for no gain in speed.
#pragma once

#include <arrow/filesystem/type_fwd.h>

#include <optional>
#include <string>

#include "paceline/data/source/source.h"

namespace paceline::data {

struct FeatherOptions {
  /// Names of the columns to read, in this order; nullopt for all. A name that no file has is an error.
  std::optional<std::vector<std::string>> columns;
};

/// Reads the footers of all files, and what each batch says of its rows; of streams what says where batches are. Also
/// the first batch, to learn how large rows are. Where columns differ, they are brought together as those of Parquet
/// files (schema_merge_internal.h). Invalid where there is no file, a file is none of Arrow's, or the types of a column
/// do not go together; the message names the file.
///
///     ARROW_ASSIGN_OR_RAISE(auto source, feather_source(file_system, files, {.columns = {{"image", "label"}}}));
arrow::Result<std::unique_ptr<Source>> feather_source(std::shared_ptr<arrow::fs::FileSystem> file_system,
                                                      std::vector<arrow::fs::FileInfo> files,
                                                      const FeatherOptions& options = {});

}  // namespace paceline::data
