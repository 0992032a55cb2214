// Decodes a Parquet column of fixed-size lists without its levels.
//
// parquet::arrow decodes a definition and a repetition level for each value, which takes most of the time. Where every
// list is there and has the same length, the values alone say everything. Measured on 2 AMD EPYC cores by
// `parquet_tensors` of `make bench`.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <memory>

namespace parquet {
class ColumnChunkMetaData;
class ColumnDescriptor;
class RowGroupReader;
}  // namespace parquet

namespace paceline::data {

/// Whether decode_leaf() can read a field: its type is a fixed-size list of numbers that Parquet keeps as they are, and
/// the statistics of its `chunk`, whose row group has `rows`, say that no list and no value is null.
bool is_plain_leaf(const arrow::Field& field, const parquet::ColumnDescriptor& column,
                   const parquet::ColumnChunkMetaData& chunk, int64_t rows);

/// The column as an array of `type`. `leaf`: its number among the file's leaf columns.
arrow::Result<std::shared_ptr<arrow::Array>> decode_leaf(parquet::RowGroupReader& row_group, int leaf,
                                                         const std::shared_ptr<arrow::DataType>& type, int64_t rows,
                                                         arrow::MemoryPool* pool);

}  // namespace paceline::data
