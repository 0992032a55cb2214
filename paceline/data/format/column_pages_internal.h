// The pages of a Parquet column from a value on, so that a part of a large row group costs what the part has.
//
// parquet::RowGroupReader reads and decompresses all that stands before. Here nothing is read of the pages before but
// their headers, which say how many values they have.
#pragma once

#include <arrow/io/interfaces.h>
#include <arrow/result.h>
#include <parquet/column_reader.h>
#include <parquet/file_reader.h>
#include <parquet/properties.h>

#include <cstdint>
#include <memory>

namespace paceline::data {

/// The pages that are left, and how many of their first values, nulls among them, stand before those that are wanted.
struct ColumnPages {
  std::unique_ptr<parquet::PageReader> pages;
  int64_t values_before = 0;
};

/// Where a row group's columns are read from.
struct RowGroupPages {
  parquet::RowGroupReader& row_group;
  /// For parts of the row group: its file and how it is read. A null pointer where the row group is read from its
  /// beginning.
  std::shared_ptr<arrow::io::RandomAccessFile> file;
  parquet::ReaderProperties properties;
  /// That are read at once at each header; a request to an object store costs more than some bytes.
  int64_t bytes_of_look = int64_t{1} << 20;
  bool is_always_compressed = false;  ///< whatever its pages say: its writer is older than Arrow 3

  /// From value number `first` on of the column that is number `leaf` of the file's leaf columns. Throws as
  /// parquet::RowGroupReader does.
  arrow::Result<ColumnPages> from(int leaf, int64_t first) const;
};

}  // namespace paceline::data
