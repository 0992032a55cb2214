// What differs between two checkpoints, tensor by tensor.
#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

#include "paceline/core/record.h"
#include "paceline/storage/location.h"

namespace paceline::checkpoint {

// A tensor that both have with the same dtype and shape but other values. NaN equals NaN and differs from all else by
// infinity. Complex elements are compared by parts. -1 for a dtype that is not compared by value (8-bit floats).
#define PACELINE_TENSOR_DIFFERENCE_FIELDS(FIELD)                                            \
  FIELD(std::string, name, "")                                                              \
  FIELD(double, largest, 0.0)  /* absolute difference of two elements */                    \
  FIELD(double, relative, 0.0) /* the same, over the largest absolute value of the first */ \
  FIELD(int64_t, differing, 0) /* elements that differ */                                   \
  FIELD(int64_t, elements, 0)  /* of each of the two */
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

// How two checkpoints differ.
#define PACELINE_CHECKPOINT_DIFF_FIELDS(FIELD)                                   \
  FIELD(Names, only_first, {})                                                   \
  FIELD(Names, only_second, {})                                                  \
  FIELD(TensorChanges, changed, {})                                              \
  FIELD(TensorDifferences, differences, {}) /* the largest first */              \
  FIELD(Names, values, {})                  /* items whose JSON values differ */ \
  FIELD(int64_t, equal, 0)                  /* how many tensors are the same in both */
PACELINE_RECORD(CheckpointDiff, PACELINE_CHECKPOINT_DIFF_FIELDS);

/// Compares two checkpoint folders. Tensors whose slices have the same checksums are not read. Errors as TensorReader.
arrow::Result<CheckpointDiff> diff(const storage::Location& first, const storage::Location& second);

/// Whether nothing differs.
bool is_equal(const CheckpointDiff& diff);

}  // namespace paceline::checkpoint
