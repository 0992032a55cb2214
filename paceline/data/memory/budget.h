// What reading may use of a machine's memory where nobody says it.
#pragma once

#include <cstdint>

namespace paceline::data {

inline constexpr int64_t kDefaultBudget = int64_t{256} << 20;  ///< bytes

}  // namespace paceline::data
