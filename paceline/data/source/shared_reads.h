// A source whose chunks are read once for several readers that need them at about the same time.
//
// Who wants a chunk that is being read waits for that, and a chunk that somebody still has is given again. The chunks
// that were read last are kept, up to an eighth of the budget in which they count, and 64 MiB, but one in any case,
// since neighbours that share a chunk may be read one after the other. Any thread may call read().
#pragma once

#include <memory>

#include "paceline/data/source/source.h"

namespace paceline::data {

std::shared_ptr<const Source> shared_reads(std::shared_ptr<const Source> source);

}  // namespace paceline::data
