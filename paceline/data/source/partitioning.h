// Columns that a file's place says: the folders it is in, and its path.
#pragma once

#include <arrow/filesystem/type_fwd.h>
#include <arrow/result.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/data/source/source.h"

namespace paceline::data {

struct FileColumns {
  /// Whether folders such as "year=2024" are columns, as Hive, Spark and pyarrow write them.
  bool hive = false;
  /// Whether there is a column `path`.
  bool include_paths = false;
  /// Names of the columns of files and places, in this order; nullopt for all, those of places behind the files' own.
  std::optional<std::vector<std::string>> columns;
};

/// Of "/data/year=2024/kind=a%20b/x.parquet": ("year", "2024"), ("kind", "a b"). Folders without "=" say nothing, and
/// all folders count, as in Ray Data.
std::vector<std::pair<std::string, std::string>> hive_values(const std::string& path);

/// Those of `columns.columns` that the files themselves must have: which to read.
std::vector<std::string> columns_in_files(const std::vector<arrow::fs::FileInfo>& files, const FileColumns& columns);

/// A source with the rows of `source` and more columns. `source` was made of exactly these files, and no chunk of it is
/// of two (`ChunkSize::file`). A key's values are int64 where all are whole numbers, and text otherwise; null in files
/// that have no such folder, and for "__HIVE_DEFAULT_PARTITION__". A column of the files that has the name of a key is
/// replaced by it, as in Spark. In `path`, bytes that are no UTF-8 are "\uFFFD". Invalid where the files themselves
/// have a column `path`.
///
///     ARROW_ASSIGN_OR_RAISE(source, with_file_columns(std::move(source), files, {.hive = true}));
arrow::Result<std::unique_ptr<Source>> with_file_columns(std::unique_ptr<Source> source,
                                                         const std::vector<arrow::fs::FileInfo>& files,
                                                         const FileColumns& columns);

}  // namespace paceline::data
