// Parquet files as a source: each row group is a chunk, or several if it is large.
//
// Files are read in the order in which they are given. Only the columns that are asked for are read and decoded.
// Tensor columns (lists of fixed size, Arrow's extension type for tensors of fixed shape, and Ray's) are decoded
// without the levels of nested data where the row group's statistics say that nothing is null; that is several times as
// fast (decode_leaf_internal.h). Ray's become lists of fixed size, nested by their shape; Arrow's stay what they are.
//
// Files may differ: a column that a file does not have is null there, and numbers become the wider type.
#pragma once

#include <arrow/compute/expression.h>
#include <arrow/filesystem/type_fwd.h>

#include <optional>
#include <string>

#include "paceline/data/source/source.h"

namespace paceline::data {

struct ParquetOptions {
  /// Names of the columns to read, in this order; nullopt for all. A name that no file has is an error.
  std::optional<std::vector<std::string>> columns;
  /// Leaves out row groups none of whose rows can pass, as their statistics say. Other rows stay, whether they pass or
  /// not. It may name columns that are not read.
  std::optional<arrow::compute::Expression> filter;
  /// Row groups with more bytes, once decoded, become several chunks, each of which is read alone. Columns of lists and
  /// structs, of time and of decimals are then decoded from the row group's beginning each time.
  int64_t bytes_of_chunk = int64_t{64} << 20;
  /// How many footers are read at once when the source is made.
  size_t footers_at_once = 8;
};

/// Reads the footers of all files, which list_files() (files.h) has found. Invalid where there is no file, a file is
/// none of Parquet's, a column's types in two files have none in common, or the filter does not go with the columns;
/// the message names the files.
///
///     ARROW_ASSIGN_OR_RAISE(auto files, file_system->GetFileInfo({"a.parquet", "b.parquet"}));
///     ARROW_ASSIGN_OR_RAISE(auto source, parquet_source(file_system, files));
arrow::Result<std::unique_ptr<Source>> parquet_source(std::shared_ptr<arrow::fs::FileSystem> file_system,
                                                      std::vector<arrow::fs::FileInfo> files,
                                                      const ParquetOptions& options = {});

}  // namespace paceline::data
