// What Dataset.stats() says.
#pragma once

#include <string>

#include "paceline/data/reader/reader.h"

namespace paceline::data {

/// A paragraph a step, one of what is read ahead, and the step that took longest: what bounds the dataset. "" where
/// nothing was read.
std::string statistics_text(const DatasetFigures& figures);

}  // namespace paceline::data
