// Whether slices of one tensor overlap, found without comparing each with every other. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/checkpoint/manifest.h"

namespace paceline::checkpoint {

/// Two of the slices that have an element in common, none of which is empty; nullopt when there are none. Where cuts
/// along the dimensions part all slices, as those of any grid do, it costs O(n log n) a dimension; slices that no cut
/// parts are compared in pairs, how many pairs is added to `compared`.
std::optional<std::pair<const Slice*, const Slice*>> find_overlap(const std::vector<const Slice*>& slices,
                                                                  int64_t* compared = nullptr);

}  // namespace paceline::checkpoint
