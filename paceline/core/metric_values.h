// What the core reads of metrics in the form that Python's have (docs/architecture/metrics_format.md). Pure functions.
#pragma once

#include <optional>

#include "paceline/core/json.h"

namespace paceline {

/// Member of a dictionary that says which of its keys are no texts in the language that has reported it: no metric.
inline constexpr const char* kKeysMember = "$keys";

/// The number that a metric is compared as: of JSON's numbers and booleans (1 and 0), and of Python's larger integers,
/// decimals and fractions, the nearest double. NaN for NaN; nothing for all else.
std::optional<double> score_of(const Json& metric);

/// Puts the members of the object `more` into the object `metrics`, in place of those of the same name, and keeps
/// kKeysMember true.
void update_metrics(Json& metrics, const Json& more);

}  // namespace paceline
