// Decodes Parquet columns, or some of a row group's rows of them, without what parquet::arrow does for nested data.
//
// parquet::arrow decodes a definition and a repetition level for each value, which takes most of the time for tensors.
// Where every list is there and has the same length, the values alone say everything. Measured on 2 AMD EPYC cores by
// `parquet_tensors` of `make bench`. And parquet::arrow reads row groups from their first row on; here what stands
// before is passed over (column_pages_internal.h).
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <memory>

namespace parquet {
class ColumnChunkMetaData;
class ColumnDescriptor;
}  // namespace parquet

namespace paceline::data {

struct RowGroupPages;

/// Rows of a row group.
struct RowRange {
  int64_t first = 0;
  int64_t rows = 0;
};

/// Whether decode_leaf() can read a field: it is a tensor (ray_tensor_internal.h) of numbers that Parquet keeps as
/// they are, and the statistics of its `chunk`, whose row group has `rows`, say that no list and no value is null.
bool is_plain_leaf(const arrow::Field& field, const parquet::ColumnDescriptor& column,
                   const parquet::ColumnChunkMetaData& chunk, int64_t rows);

/// The rows of the column as an array of `type`. `leaf`: its number among the file's leaf columns.
arrow::Result<std::shared_ptr<arrow::Array>> decode_leaf(const RowGroupPages& row_group, int leaf,
                                                         const std::shared_ptr<arrow::DataType>& type,
                                                         const RowRange& range, arrow::MemoryPool* pool);

/// Whether decode_flat() can read a field: a number, date, bool, text or bytes, of which any may be null.
bool is_flat(const arrow::Field& field, const parquet::ColumnDescriptor& column);

/// The rows of a column that is_flat() as an array of `type`.
arrow::Result<std::shared_ptr<arrow::Array>> decode_flat(const RowGroupPages& row_group, int leaf,
                                                         const std::shared_ptr<arrow::DataType>& type,
                                                         const RowRange& range, arrow::MemoryPool* pool);

}  // namespace paceline::data
