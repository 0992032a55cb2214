// Where datasets begin: files, rows in memory, numbers. Ray Data's names.
//
// Nothing is read here, and no file looked at. Paths are files, folders or globs, on this machine or in object stores
// (docs/storage.md). Thread-safe.
#pragma once

#include <arrow/type_fwd.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/json.h"
#include "paceline/data/dataset/dataset.h"
#include "paceline/data/source/datasource.h"

namespace paceline::data {

/// One path or several: `read_parquet("images/")`, `read_parquet({"a.parquet", "b.parquet"})`.
class Paths {
 public:
  /// One path, or a pattern with `*`.
  Paths(const char* path) : paths_{path} {}  // NOLINT: implicit
  /// The same.
  Paths(std::string path) : paths_{std::move(path)} {}  // NOLINT: implicit
  /// Several paths, all in one file system.
  Paths(std::initializer_list<std::string> paths) : paths_(paths) {}  // NOLINT: implicit
  /// The same.
  Paths(std::vector<std::string> paths) : paths_(std::move(paths)) {}  // NOLINT: implicit
  /// As they were given.
  const std::vector<std::string>& all() const { return paths_; }

 private:
  std::vector<std::string> paths_;
};

/// What readers of files take.
struct FileOptions {
  /// Only these, in this order; not of JSON, texts, binary files and arrays.
  std::optional<std::vector<std::string>> columns = std::nullopt;
  /// Which files of folders and globs are read; by default those that the format usually has.
  std::optional<std::vector<std::string>> file_extensions = std::nullopt;
  bool ignore_missing_paths = false;  ///< paths that do not exist are left out
  bool include_paths = false;         ///< adds the column "path"
  /// "hive": folders such as `year=2024` become columns; "": they do not. By default they do of Parquet files.
  std::optional<std::string> partitioning = std::nullopt;
  std::optional<std::string> shuffle = std::nullopt;          ///< "files": files in another order in each epoch
  std::optional<int64_t> shuffle_seed = std::nullopt;         ///< of that; nullopt: one is drawn now
  std::optional<int64_t> override_num_blocks = std::nullopt;  ///< the rows in so many blocks
  /// Of CSV, JSON and text files, what becomes of a line that cannot be read: "raise", an error; "skip", it is left
  /// out; "replace", a good line takes its place: of its block, or of the nearest block that has one.
  std::string on_error = "raise";
  std::string quarantine = "";  ///< path of a file to which such lines are added, as JSON lines; "": none
  /// Of CSV and JSON files: the types of these columns; those of the others are found in samples.
  std::shared_ptr<arrow::Schema> column_types = nullptr;
};

/// How CSV files are read.
struct CsvFileOptions {
  /// Between the values of a line: one character.
  char delimiter = ',';
  std::vector<std::string> column_names = {};  ///< empty: those of the first line
  /// Which files, and which of their columns.
  FileOptions files = {};
};

/// Rows of Parquet files: each row group is a block.
Dataset read_parquet(const Paths& paths, const FileOptions& options = {});
/// Rows of CSV files, compressed or not. Columns and types are those of samples of all files: a column that a file does
/// not have is null there.
Dataset read_csv(const Paths& paths, const CsvFileOptions& options = {});
/// Rows of files of JSON lines (.json, .jsonl), compressed or not. Columns and types as of CSV files.
Dataset read_json(const Paths& paths, const FileOptions& options = {});
/// Rows of Arrow's IPC files (.feather, .arrow, .ipc): each record batch is a block.
Dataset read_feather(const Paths& paths, const FileOptions& options = {});
/// Rows of ORC files: each stripe is a block.
Dataset read_orc(const Paths& paths, const FileOptions& options = {});
/// A row for each line of UTF-8 that is not empty, as the column "text".
Dataset read_text(const Paths& paths, const FileOptions& options = {});
/// A row for each file, as the column "bytes".
Dataset read_binary_files(const Paths& paths, const FileOptions& options = {});
/// The rows of arrays in .npy files, along their first dimension, as the column "data".
Dataset read_numpy(const Paths& paths, const FileOptions& options = {});

/// Rows of a source of the user's own, a function that PACELINE_DATASOURCE registers; otherwise UsageError. It gets
/// `options`, which travel to the processes that read.
///
///     data::read_datasource(squares, {{"rows", 10'000}});
Dataset read_datasource(Datasource datasource, const Json& options = Json::object());

/// The rows of a table, which are not copied.
Dataset from_arrow(const std::shared_ptr<arrow::Table>& table);
/// The rows of batches, at least one, which are not copied; each is a block.
Dataset from_arrow(std::vector<std::shared_ptr<arrow::RecordBatch>> batches);
/// A row for each, as the column "item": truth values, int32_t, int64_t, float, double, std::string.
///
///     data::from_items(std::vector{1.5, 2.0, 2.5});
template <typename Item>
Dataset from_items(const std::vector<Item>& items);
/// The numbers from 0 to n - 1 as the column "id".
Dataset range(int64_t n);
/// Arrays of this shape, filled with 0, 1, …, n - 1, as the column "data".
Dataset range_tensor(int64_t n, const std::vector<int64_t>& shape = {1});

}  // namespace paceline::data
