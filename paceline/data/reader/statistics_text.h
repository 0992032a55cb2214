// What Dataset.stats() says.
#pragma once

#include <string>
#include <vector>

#include "paceline/data/reader/reader.h"

namespace paceline::data {

/// A paragraph a step, and the step that took longest: what bounds the dataset. "" where nothing was read.
std::string statistics_text(const std::vector<OperatorFigures>& steps);

}  // namespace paceline::data
