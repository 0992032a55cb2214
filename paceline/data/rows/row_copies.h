// What copying rows of columns needs to know of their types.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "paceline/data/order/epoch_order.h"

namespace paceline::data {

/// The values of a fixed-size list, of lists of them, or of plain numbers.
struct Leaf {
  std::shared_ptr<arrow::DataType> type;  ///< a null pointer where a row is not some bytes of fixed number
  int64_t bytes_of_row = 0;
};
Leaf leaf_of(const std::shared_ptr<arrow::DataType>& type);

/// Where the bytes of an array's rows begin; nullptr if one of its rows or values is null.
const uint8_t* plain_bytes(const arrow::Array& array, const Leaf& leaf);

/// The array of `type` over the bytes of its rows.
std::shared_ptr<arrow::ArrayData> wrapped(const std::shared_ptr<arrow::DataType>& type, int64_t rows,
                                          std::shared_ptr<arrow::Buffer> bytes);

/// The rows of `runs` of `parts`, which have one type, whatever it is. A dictionary's index may become wider.
arrow::Result<std::shared_ptr<arrow::Array>> gather_any(const arrow::ArrayVector& parts, std::span<const RowRun> runs,
                                                        arrow::MemoryPool* pool);

/// Rows of `parts`, which are at least one of one type, whatever it is, in the order `rows`: numbers counted through
/// them.
arrow::Result<std::shared_ptr<arrow::Array>> take_any(const arrow::ArrayVector& parts,
                                                      const std::vector<uint32_t>& rows, arrow::MemoryPool* pool);

/// A batch of the schema's names, and the types of the arrays, which may have become wider.
std::shared_ptr<arrow::RecordBatch> batch_of(const arrow::Schema& schema, int64_t rows, arrow::ArrayVector arrays);

/// The batches with one schema: see gather().
arrow::Result<std::vector<std::shared_ptr<arrow::RecordBatch>>> alike(
    const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches, arrow::MemoryPool* pool);

}  // namespace paceline::data
