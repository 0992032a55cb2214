// Operators of categories: values as their places in a list of values.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>
#include <string>

#include "paceline/data/operator/operator.h"

namespace paceline::data {

/// What becomes of a value.
enum class Encoding {
  place,    ///< its place, as int64, from 0; null where it is none of the values
  one_hot,  ///< a fixed-size list of uint8 with a 1 at its place; nothing but 0 where it is none of the values
  inverse   ///< of a place: the value there; null where there is none
};

/// What is encoded.
struct EncodeOptions {
  std::string column;                    ///< of values; of places for Encoding::inverse
  std::string output;                    ///< may be the same column, whose place it takes then; otherwise the last one
  std::shared_ptr<arrow::Array> values;  ///< each once, without nulls
  Encoding encoding = Encoding::place;
};

/// Adds the column `output`. Numbers of another type than the values are found by what they are: 2.0 is 2, 2.5 is none
/// of integers, and the double 0.1 is neither the float nor the decimal of that name. Errors are: a missing column, and
/// one of another kind than the values, such as texts for numbers; a null or NaN in it; for Encoding::inverse, which
/// takes those for no place, a place with a fraction.
std::shared_ptr<const Operator> encode_categories(EncodeOptions options);

}  // namespace paceline::data
