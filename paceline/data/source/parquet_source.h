// Parquet files as a source: each row group is a chunk.
//
// Files are read in the order in which they are given. Only the columns that are asked for are read and decoded.
// Columns of fixed-size lists of numbers, as embeddings and images are kept in, are decoded without the levels of
// nested data where the row group's statistics say that nothing is null; that is several times as fast (decode_leaf.h).
#pragma once

#include <arrow/filesystem/type_fwd.h>

#include <optional>
#include <string>

#include "paceline/data/source/source.h"

namespace paceline::data {

struct ParquetOptions {
  /// Names of the columns to read, in this order; nullopt for all. A name that a file does not have is an error.
  std::optional<std::vector<std::string>> columns;
  /// How many footers are read at once when the source is made.
  size_t footers_at_once = 8;
};

/// Reads the footers of all files, which list_files() (files.h) has found. Invalid where there is no file, a file is
/// none of Parquet's, or its columns differ in name or type from those of the first; the message names the file.
///
///     ARROW_ASSIGN_OR_RAISE(auto files, file_system->GetFileInfo({"a.parquet", "b.parquet"}));
///     ARROW_ASSIGN_OR_RAISE(auto source, parquet_source(file_system, files));
arrow::Result<std::unique_ptr<Source>> parquet_source(std::shared_ptr<arrow::fs::FileSystem> file_system,
                                                      std::vector<arrow::fs::FileInfo> files,
                                                      const ParquetOptions& options = {});

}  // namespace paceline::data
