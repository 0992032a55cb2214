// What `paceline show --collectives` prints of a run's last collectives.
#pragma once

#include <string>

#include "paceline/views/collectives_summary.h"

namespace paceline::cli {

/// The summary in lines for readers; `columns`: as Table has them.
std::string to_text(const views::CollectivesSummary& summary, size_t columns);

}  // namespace paceline::cli
