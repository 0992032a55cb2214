// An operator that keeps the rows whose value of a column falls into a part, so that rows of one value stay together.
#pragma once

#include <memory>
#include <string>

#include "paceline/data/operator/operator.h"

namespace paceline::data {

struct HashPartOptions {
  std::string column;
  double fraction = 1;      ///< of the values, about: 0 to 1
  bool complement = false;  ///< the rows that would not be kept
};

/// A value falls into the same part in every process, and whatever its column is encoded as: the number 1 does as int32
/// and as int64. Null is a value too. A column that is missing is an error.
std::shared_ptr<const Operator> part_by_hash(HashPartOptions options);

}  // namespace paceline::data
