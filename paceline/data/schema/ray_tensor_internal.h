// Columns of tensors in files: which types they have there, and how the values of all rows become an array of one.
//
// A tensor is a row of nested lists of fixed size, or of Arrow's extension type for tensors of fixed shape. Ray's own
// extension types are lists of any length, whose shape is in the field's metadata: they become lists of fixed size.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <memory>
#include <optional>

namespace paceline::data {

struct TensorLayout {
  std::shared_ptr<arrow::DataType> value_type;
  int64_t values_of_row = 0;
};

/// nullopt for types of which rows are no tensors of one shape.
std::optional<TensorLayout> tensor_layout(const arrow::DataType& type);

/// A field of Ray's "ray.data.arrow_tensor" or "ray.data.arrow_tensor_v2" as nested lists of fixed size; others as they
/// are, and so those whose shape Python has pickled.
std::shared_ptr<arrow::Field> without_ray_tensor(const std::shared_ptr<arrow::Field>& field);

/// `length` lists of `type`, one after the other, over values that are flat; just the values where `type` is their own.
std::shared_ptr<arrow::ArrayData> nested(const std::shared_ptr<arrow::DataType>& type,
                                         const std::shared_ptr<arrow::ArrayData>& values, int64_t length);

/// An array of a tensor type from the values of `rows` rows, none of which is null.
std::shared_ptr<arrow::Array> tensors_of(const std::shared_ptr<arrow::DataType>& type,
                                         const std::shared_ptr<arrow::ArrayData>& values, int64_t rows);

/// An array of lists as nested lists of fixed size. Invalid where a list has another length.
arrow::Result<std::shared_ptr<arrow::Array>> lists_as_tensors(const std::shared_ptr<arrow::Array>& lists,
                                                              const std::shared_ptr<arrow::DataType>& type);

}  // namespace paceline::data
