// The operator that puts a value in the place of nulls and NaN.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>
#include <string>

#include "paceline/data/operator/operator.h"

namespace paceline::data {

/// What is filled.
struct FillOptions {
  std::string column;                    ///< whose nulls and NaN are filled
  std::string output;                    ///< may be the same column, whose place it takes then; otherwise the last one
  std::shared_ptr<arrow::Scalar> value;  ///< no null
};

/// Adds the column `output`, of the column's own type where that holds the value exactly, such as 1.00 in a column of
/// integers. Otherwise it is of a type that holds both, such as double for integers and 0.5. Errors are: a missing
/// column, and one that has no such type.
std::shared_ptr<const Operator> fill_missing(FillOptions options);

}  // namespace paceline::data
