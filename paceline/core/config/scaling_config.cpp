#include "paceline/core/config/scaling_config.h"

namespace paceline {

void to_json(Json& json, const NumWorkers& workers) {
  if (workers.min == workers.max) {
    json = workers.max;
  } else {
    json = {workers.min, workers.max};
  }
}

void from_json(const Json& json, NumWorkers& workers) {
  workers = json.is_array() ? NumWorkers(json.at(0).get<int64_t>(), json.at(1).get<int64_t>())
                            : NumWorkers(json.get<int64_t>());
}

Constraint worker_count() {
  return {[](const Json& value) {
            if (value.is_number_integer()) return value.get<int64_t>() >= 0;
            if (!value.is_array() || value.size() != 2) return false;
            const auto low = value[0].get<int64_t>();
            const auto high = value[1].get<int64_t>();
            return low >= 0 && low <= high && high >= 1;
          },
          "an integer from 0, or {min, max} with 0 ≤ min ≤ max and max at least 1"};
}

}  // namespace paceline
