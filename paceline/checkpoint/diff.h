// What differs between two checkpoints, tensor by tensor.
#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

#include "paceline/core/record.h"

namespace paceline::checkpoint {

// A tensor that both have with the same dtype and shape but other values. `largest`: the largest absolute difference of
// two elements; `relative`: that, over the largest absolute value of the first; `differing` of `elements`. NaN equals
// NaN and differs from all else by infinity. Complex elements are compared by parts. -1 for a dtype that is not
// compared by value (8-bit floats).
#define PACELINE_TENSOR_DIFFERENCE_FIELDS(FIELD) \
  FIELD(std::string, name, "")                   \
  FIELD(double, largest, 0.0)                    \
  FIELD(double, relative, 0.0)                   \
  FIELD(int64_t, differing, 0)                   \
  FIELD(int64_t, elements, 0)
PACELINE_RECORD(TensorDifference, PACELINE_TENSOR_DIFFERENCE_FIELDS);

// A tensor of another dtype or shape: "F32 [3, 4]".
#define PACELINE_TENSOR_CHANGE_FIELDS(FIELD) \
  FIELD(std::string, name, "")               \
  FIELD(std::string, first, "")              \
  FIELD(std::string, second, "")
PACELINE_RECORD(TensorChange, PACELINE_TENSOR_CHANGE_FIELDS);

using Names = std::vector<std::string>;
using TensorChanges = std::vector<TensorChange>;
using TensorDifferences = std::vector<TensorDifference>;

// `differences`: the largest first. `equal`: how many tensors are the same in both. `values`: items whose JSON values
// differ.
#define PACELINE_CHECKPOINT_DIFF_FIELDS(FIELD) \
  FIELD(Names, only_first, {})                 \
  FIELD(Names, only_second, {})                \
  FIELD(TensorChanges, changed, {})            \
  FIELD(TensorDifferences, differences, {})    \
  FIELD(Names, values, {})                     \
  FIELD(int64_t, equal, 0)
PACELINE_RECORD(CheckpointDiff, PACELINE_CHECKPOINT_DIFF_FIELDS);

/// Compares two checkpoint folders. Tensors whose slices have the same checksums are not read. Errors as TensorReader.
arrow::Result<CheckpointDiff> diff(const std::string& first, const std::string& second);

/// Whether nothing differs.
bool is_equal(const CheckpointDiff& diff);

}  // namespace paceline::checkpoint
