// Columns of tensors: lists of fixed size in lists of fixed size, down to the numbers. Pure.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace paceline::data {

/// The type of tensors of a shape: of {2, 3} and float, fixed_size_list<fixed_size_list<float>[3]>[2]; of {}, float.
/// Invalid where a dimension is negative or exceeds what a list can have.
arrow::Result<std::shared_ptr<arrow::DataType>> tensor_type(std::shared_ptr<arrow::DataType> value,
                                                            const std::vector<int64_t>& shape);
/// How many numbers a tensor has. Invalid where they are more than 2^59.
arrow::Result<int64_t> count_values(const std::vector<int64_t>& shape);
/// The column of tensors whose numbers, in C order, are `values`.
std::shared_ptr<arrow::Array> tensor_column(std::shared_ptr<arrow::Array> values,
                                            const std::shared_ptr<arrow::DataType>& type, int64_t rows);

}  // namespace paceline::data
