// What `paceline show` prints of a run.
#pragma once

#include <string>

#include "paceline/views/run_summary.h"

namespace paceline::cli {

/// The summary in lines for readers.
std::string to_text(const views::RunSummary& run);

}  // namespace paceline::cli
