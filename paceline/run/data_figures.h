// What the data processes of a run have done, as they keep it in the run folder (core/data_figures.h).
#pragma once

#include <string>
#include <vector>

#include "paceline/core/data_figures.h"

namespace paceline::run {

/// Of each data process, the first one first; empty for a run without datasets. A file that cannot be read is left out.
std::vector<DataFigures> read_data_figures(const std::string& run_folder);

}  // namespace paceline::run
