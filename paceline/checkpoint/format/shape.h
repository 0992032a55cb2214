// Shapes and element types of tensors, as files describe them. Pure functions.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::checkpoint {

/// Elements along each dimension; empty for a scalar.
using Shape = std::vector<int64_t>;

/// Elements of a tensor of this shape. Invalid when a dimension is negative or the number does not fit.
arrow::Result<int64_t> element_count(const Shape& shape);
/// Bytes of one element of a safetensors dtype; Invalid for an unknown one.
arrow::Result<int64_t> element_size(const std::string& dtype);
/// Bytes of a tensor.
arrow::Result<int64_t> byte_count(const std::string& dtype, const Shape& shape);

/// "[64, 3, 7, 7]".
std::string to_string(const Shape& shape);

}  // namespace paceline::checkpoint
