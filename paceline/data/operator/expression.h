// Operators of Arrow's expressions: keep the rows for which one is true, add a column that one computes.
#pragma once

#include <arrow/compute/expression.h>

#include <memory>
#include <string>
#include <vector>

#include "paceline/data/operator/operator.h"

namespace paceline::data {

/// Keeps the rows for which `condition` is true; those for which it is null are left out.
///
///     filter(arrow::compute::greater(arrow::compute::field_ref("x"), arrow::compute::literal(3)));
std::shared_ptr<const Operator> filter(arrow::compute::Expression condition);
/// Adds the column `name` with the value of `value`, or puts it in the place of the column that is called so. Other
/// columns than of numbers are an error where `numbers` names them: a cast would make numbers of texts.
std::shared_ptr<const Operator> with_column(std::string name, arrow::compute::Expression value,
                                            std::vector<std::string> numbers = {});

}  // namespace paceline::data
