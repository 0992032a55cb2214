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

#include "paceline/data/dataset/dataset.h"

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
  bool ignore_missing_paths = false;                          ///< paths that do not exist are left out
  bool include_paths = false;                                 ///< adds the column "path"
  std::string partitioning = "";                              ///< "hive": folders such as `year=2024` become columns
  std::optional<std::string> shuffle = std::nullopt;          ///< "files": files in another order in each epoch
  std::optional<int64_t> override_num_blocks = std::nullopt;  ///< the rows in so many blocks
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
/// Rows of CSV files, compressed or not. Types are those of the first block of the first file.
Dataset read_csv(const Paths& paths, const CsvFileOptions& options = {});
/// Rows of files of JSON lines (.json, .jsonl), compressed or not.
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

/// The rows of a table, which are not copied.
Dataset from_arrow(const std::shared_ptr<arrow::Table>& table);
/// The rows of batches, at least one, which are not copied; each is a block.
Dataset from_arrow(std::vector<std::shared_ptr<arrow::RecordBatch>> batches);
/// The numbers from 0 to n - 1 as the column "id".
Dataset range(int64_t n);

}  // namespace paceline::data
