// CSV files as a source: rows of lines, with types that are found in the first of them.
//
// Chunks are byte ranges that begin and end with rows; how many rows one has is known when it is read. A line break in
// quotes ends no row, but where one is cannot be told without reading all that stands before it. So what stands before
// a chunk that has quotes is read once more for it, unless `cut_quoted` says that no field has a line break. No field
// may be larger than a chunk. Files that end with .gz, .zst, .bz2 or .lz4 are decompressed, and are a chunk each.
#pragma once

#include <arrow/csv/options.h>
#include <arrow/filesystem/type_fwd.h>

#include "paceline/data/source/bad_rows.h"
#include "paceline/data/source/source.h"

namespace paceline::data {

struct CsvOptions {
  /// Arrow's options. `block_size` and `use_threads` have no effect. Without `column_names`, and without
  /// `autogenerate_column_names`, the first line of each file has the names.
  arrow::csv::ReadOptions read = arrow::csv::ReadOptions::Defaults();
  arrow::csv::ParseOptions parse = arrow::csv::ParseOptions::Defaults();
  /// `column_types` are the types of columns that are not to be found by what is in them; `include_columns` the columns
  /// to read.
  arrow::csv::ConvertOptions convert = arrow::csv::ConvertOptions::Defaults();
  /// That no field has a line break: spares reading files with quotes twice.
  bool cut_quoted = false;
  /// What becomes of lines with too few or too many fields, and of values that do not fit; a null pointer where they
  /// are errors. A value in the first block fits always: it says what the type is.
  std::shared_ptr<BadRows> bad_rows;
  /// Bytes of a file that one chunk has; its last line may go on beyond.
  int64_t chunk_bytes = int64_t{8} << 20;
};

/// Reads samples of all files, which say what columns there are and what types they have (line_types_internal.h). What
/// does not fit in other rows is an error when it is read, which names file, column and type and says how to give
/// types. Files may have their columns in another order, and lack some: these are null. Invalid where all files are
/// empty.
///
///     CsvOptions options;
///     options.convert.column_types["label"] = arrow::float32();
///     ARROW_ASSIGN_OR_RAISE(auto source, csv_source(file_system, files, options));
arrow::Result<std::unique_ptr<Source>> csv_source(std::shared_ptr<arrow::fs::FileSystem> file_system,
                                                  std::vector<arrow::fs::FileInfo> files,
                                                  const CsvOptions& options = {});

}  // namespace paceline::data
