// Numbers of one type as those of another, where that holds exactly the same ones.
//
// There are four types that hold the numbers of all others: int64, uint64, double, and decimal256 of any scale.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <memory>

namespace paceline::data {

/// Whether a column of this type has numbers: truth values are some, and so are nulls of no type.
bool holds_numbers(const arrow::DataType& type);
/// A column of numbers in one of the four types; truth values are 0 and 1, and a dictionary's words its values.
arrow::Result<std::shared_ptr<arrow::Array>> in_wide_type(std::shared_ptr<arrow::Array> numbers);
/// Numbers of one of the four types in another one of them; null where that does not hold one exactly. 2^53 + 1 is no
/// double, and the double 0.1 no decimal.
arrow::Result<std::shared_ptr<arrow::Array>> held_exactly(const std::shared_ptr<arrow::Array>& numbers,
                                                          const std::shared_ptr<arrow::DataType>& type);

}  // namespace paceline::data
