// Columns of Arrow as tensors, without a copy where that is possible.
//
// Pure and thread-safe. A tensor that is not copied keeps the column's memory, which other tensors and batches may
// share: it must not be written to.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>
#include <torch/types.h>

#include <memory>

namespace paceline {

/// The values of a column of numbers or truth values: shape [rows], or [rows, …] for fixed-size lists of them, and for
/// lists that all have one length.
///
/// Numbers without nulls are not copied. Where there are nulls, floating-point numbers get NaN in their place, and
/// integers become float64 with NaN (as in Ray Data and pandas). Invalid for texts and other types, for lists of
/// different lengths, and for truth values with nulls, with what to do instead.
arrow::Result<torch::Tensor> to_tensor(const std::shared_ptr<arrow::Array>& column);

}  // namespace paceline
