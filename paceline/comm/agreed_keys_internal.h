// The keys of a store over which the ranks of one group meet: none that others have left, or leave.
//
// torch gives a group of the same ranks that is made again the same name, and so the same prefix of the store: after
// destroy_process_group(), when a program goes on after an error, and when torchrun starts ranks again, over the same
// store, of which some were killed while they made the group. So each process that comes for a rank names itself; rank
// 0 gives those that came last a new prefix, anew for each that comes later, until all of them have said that they have
// it. Two keys and two waits for each rank.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace paceline::comm {

/// Collective. Throws CollectiveError, naming who has not come, after `timeout`, and what the store throws.
c10::intrusive_ptr<c10d::Store> agree_on_keys(const c10::intrusive_ptr<c10d::Store>& given, int64_t rank,
                                              int64_t world_size, std::chrono::milliseconds timeout);

}  // namespace paceline::comm
