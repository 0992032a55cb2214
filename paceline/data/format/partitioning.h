// Columns that a file's place says: the folders it is in, and its path.
#pragma once

#include <arrow/compute/expression.h>
#include <arrow/filesystem/type_fwd.h>
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/data/source/source.h"

namespace paceline::data {

/// Which folders say something.
enum class FolderStyle {
  none,
  hive,  ///< such as "year=2024", as Hive, Spark and pyarrow write them
  named  ///< "2024/germany", by the names in PlaceOptions
};

struct PlaceOptions {
  FolderStyle folders = FolderStyle::none;
  /// Only folders below this one count; empty: all, as in Ray Data.
  std::string base_dir = {};
  /// Of FolderStyle::named: one for each folder from base_dir down to the file.
  std::vector<std::string> names = {};
  /// Of columns whose type is not to be found by their values.
  std::map<std::string, std::shared_ptr<arrow::DataType>> types = {};
  /// Whether there is a column `path`.
  bool include_paths = false;
};

/// What folders say of a file. Of "/data/year=2024/kind=a%20b/x.parquet": ("year", "2024"), ("kind", "a b"). With
/// FolderStyle::hive, folders without "=" say nothing. Files that are not below base_dir say nothing. Invalid for
/// FolderStyle::named where there are not as many folders as names.
arrow::Result<std::vector<std::pair<std::string, std::string>>> folder_values(const std::string& path,
                                                                              const PlaceOptions& options);

/// What the places of files say: a row for each file. A key's values are of the type in `types`; int64 where all
/// are whole numbers, and text otherwise; null for files that have no such folder, and for
/// "__HIVE_DEFAULT_PARTITION__". In `path`, bytes that are no UTF-8 are "\uFFFD". Invalid where a key is called `path`,
/// too, or a value is none of its type.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> columns_of_places(const std::vector<arrow::fs::FileInfo>& files,
                                                                     const PlaceOptions& options);

/// The numbers of the rows of `places` for which a condition on its columns may be true: the files to read.
arrow::Result<std::vector<size_t>> places_that_pass(const arrow::RecordBatch& places,
                                                    const arrow::compute::Expression& condition);

/// A source with the rows of `source` and the columns of `places`, which has a row for each of its files; no chunk of
/// `source` is of two (`ChunkSize::file`). `columns`: names of both, in this order; nullopt for all, those of places
/// behind the files' own. A column of the files that has the name of a key is replaced by it, as in Spark. Invalid
/// where the files themselves have a column `path`.
///
///     ARROW_ASSIGN_OR_RAISE(const auto places, columns_of_places(files, {.folders = FolderStyle::hive}));
///     ARROW_ASSIGN_OR_RAISE(source, with_columns_of_places(std::move(source), places, std::nullopt));
arrow::Result<std::unique_ptr<Source>> with_columns_of_places(std::unique_ptr<Source> source,
                                                              std::shared_ptr<arrow::RecordBatch> places,
                                                              const std::optional<std::vector<std::string>>& columns);

}  // namespace paceline::data
