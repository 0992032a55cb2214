// What the data processes of a run have done, as they keep it in the run folder (core/data_figures.h).
#pragma once

#include <string>
#include <vector>

#include "paceline/core/data_figures.h"

namespace paceline::run {

struct ProcessFigures {
  /// The data process's number, which its log and its samples have too.
  int64_t process = 0;
  DataFigures figures;
};

/// Of each data process, the one that has written last at last; empty for a run without datasets. A file that cannot be
/// read is left out.
std::vector<ProcessFigures> read_data_figures(const std::string& run_folder);

}  // namespace paceline::run
