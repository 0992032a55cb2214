// The operator that makes one column of arrays of several columns of numbers.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>
#include <string>
#include <vector>

#include "paceline/data/operator/operator.h"

namespace paceline::data {

/// What is concatenated.
struct ConcatenateOptions {
  std::vector<std::string> columns;                 ///< in the order of the arrays; they go
  std::string output;                               ///< the new column, a fixed-size list: the last one
  std::shared_ptr<arrow::DataType> type = nullptr;  ///< of the numbers; a null pointer: one that holds those of all
  bool flatten = false;                             ///< columns of fixed-size lists are put one behind the other, too
};

/// Errors are: a column that is missing, or no column of numbers; numbers that are too large or too small for their
/// type; where the arrays are of integers, nulls, NaN and infinite numbers, too. Those cut fractions off: -1.7 is -1.
/// In arrays of floating-point numbers null is NaN.
std::shared_ptr<const Operator> concatenate_columns(ConcatenateOptions options);

}  // namespace paceline::data
