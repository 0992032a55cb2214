// reduce(): the loops that make one rank's values of all ranks', with the instructions that the machine has; and copies
// of what is too large for the caches.
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

/// From here on copies go past the caches: they hold less than that, and would read every line before it is written.
inline constexpr size_t kPastCachesBytes = size_t{4} << 20;

/// As memcpy, but what is written is in no cache afterwards. Of 32 MiB that takes half the time and two thirds of the
/// traffic.
void copy_past_caches(std::byte* to, const std::byte* from, size_t bytes);

/// "avx512", "avx2" or "portable": the instructions that reduce() uses here.
const char* reduce_instructions();

}  // namespace paceline::collective
