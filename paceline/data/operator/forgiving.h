// An operator that bad rows do not stop.
#pragma once

#include <memory>

#include "paceline/data/operator/operator.h"
#include "paceline/data/source/bad_rows.h"

namespace paceline::data {

/// `step`, with the rows that it fails for left out or replaced (bad_rows.h). Where it fails for a block, it is applied
/// to parts of it: an operator that looks at several rows sees fewer of them then.
std::shared_ptr<const Operator> forgiving(std::shared_ptr<const Operator> step, std::shared_ptr<BadRows> bad_rows);

}  // namespace paceline::data
