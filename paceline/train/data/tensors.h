// Columns of Arrow as tensors, without a copy where that is possible.
//
// Pure and thread-safe. A tensor that is not copied keeps the column's memory, which other tensors and batches may
// share: it must not be written to.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>
#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "paceline/train/data/batch.h"

namespace paceline {

/// The values of a column of numbers or truth values: shape [rows], or [rows, …] for fixed-size lists of them, and for
/// lists that all have one length.
///
/// Numbers without nulls are not copied. Where there are nulls, floating-point numbers get NaN in their place, and
/// integers become float64 with NaN (as in Ray Data and pandas). Invalid for texts and other types, for lists of
/// different lengths, and for truth values with nulls, with what to do instead.
arrow::Result<torch::Tensor> to_tensor(const std::shared_ptr<arrow::Array>& column);
/// All columns, by name. Invalid as to_tensor(), with the column's name.
arrow::Result<TensorBatch> to_tensors(const arrow::RecordBatch& rows);
/// The column that to_tensor() makes the tensor of: its rows, as fixed-size lists where it has further dimensions.
/// Numbers are not copied if they are contiguous and on the CPU. Invalid for a tensor without rows, such as a single
/// number, and for types that Arrow has not.
arrow::Result<std::shared_ptr<arrow::Array>> to_array(const torch::Tensor& tensor);
/// All tensors as columns, first those of `order` that there are, then the others by name. Invalid as to_array(), with
/// the column's name, and for columns of different lengths.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> to_rows(const TensorBatch& batch,
                                                           const std::vector<std::string>& order = {});

}  // namespace paceline
