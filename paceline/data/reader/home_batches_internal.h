// Batches that are of the process which asked for them: a fork of it forgets them (core/posix/forks.h).
#pragma once

#include <memory>

#include "paceline/data/executor/batch_stream.h"

namespace paceline::data {

/// The same batches; in a fork of this process, next() is an error, and nothing becomes of them when they end.
std::unique_ptr<RankBatches> at_home(std::unique_ptr<RankBatches> batches);

}  // namespace paceline::data
