// reduce(): the loops that make one rank's values of all ranks', with the instructions that the machine has.
//
// Thread-safe. Memory of any alignment.
#pragma once

#include <cstddef>

#include "paceline/collective/element.h"

namespace paceline::collective {

/// destinations[d][i] = the reduction of sources[0][i], sources[1][i], … in this order, for the first `count` values
/// and each of the `destination_count` destinations. A destination may be one of the sources; they do not overlap
/// otherwise. The result is the same bits on every machine: it follows from the values and their order.
void reduce(const Reduce& what, const void* const* sources, size_t source_count, void* const* destinations,
            size_t destination_count, size_t count);

/// "avx512", "avx2" or "portable": the instructions that reduce() uses here.
const char* reduce_instructions();

}  // namespace paceline::collective
