// The keys of a store over which the ranks of one group meet: none that others have left, or leave.
//
// torch gives a group of the same ranks that is made again the same name, and so the same prefix of the store: after
// destroy_process_group(), when a program goes on after an error, and when torchrun starts ranks again, over the same
// store, of which some were killed while they made the group. So each process that comes for a rank names itself; rank
// 0 tells it a new prefix, its own, until all that came last have said that they have it, and then says so. A process
// keeps to what it has heard last. Where rank 0 gives up it says for want of whom, and so do the others, at once. Of
// two processes for rank 0 at most one meets the others; of two for another rank the one that came first is told to
// give up. About 20 calls of the store for each rank, and some with which it looks around while it waits. Each attempt
// of rank 0 reads what others have left since a group met there last. The keys, about four for each rank, stay in the
// store.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace paceline::comm {

/// Collective. Throws CollectiveError after `timeout`, or a second later, for want of those that have not come, and
/// what the store throws. The store needs compareSet(), which those of c10d have.
c10::intrusive_ptr<c10d::Store> agree_on_keys(const c10::intrusive_ptr<c10d::Store>& given, int64_t rank,
                                              int64_t world_size, std::chrono::milliseconds timeout);

}  // namespace paceline::comm
