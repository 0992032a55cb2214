// Batches of a dataset in a train loop: each is a step of it, and is given again where the step was void. Not for
// users.
#pragma once

#include <memory>

#include "paceline/data/reader/epochs.h"
#include "paceline/loader/options.h"

namespace paceline::train {

/// Begins the next iteration of `epochs` in the place of a loader: its phases, its end when the run is being stopped,
/// and, with `counts`, its steps. Both may be absent, outside a train loop. ConfigError, or what cannot be read.
std::unique_ptr<data::RankBatches> step_batches(data::Epochs& epochs, const data::EpochOptions& options,
                                                const LoaderPlace& place, bool counts);

}  // namespace paceline::train
