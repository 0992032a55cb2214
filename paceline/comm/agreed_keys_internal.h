// The keys of a store over which the ranks of one group meet: none that others have left, or leave.
//
// torch gives a group of the same ranks that is made again the same name, and so the same prefix of the store: after
// destroy_process_group(), when a program goes on after an error, and when torchrun starts ranks again, over the same
// store, of which some were killed while they made the group. So each process that comes for a rank names itself; rank
// 0 tells it a new prefix, its own, until all that came last have said that they have it, and then says so. Where rank
// 0 gives up it says for want of whom, and so do the others, at once. Of several processes for a rank the one that came
// last meets the others, and the earlier ones are told to give up; a rank that has heard of two for rank 0 keeps to the
// later, unless the earlier has said that all are there. About 20 calls of the store for each rank, and some with which
// it looks around while it waits. What an attempt has read, the next need not read again. The keys, about five for each
// rank and attempt, stay in the store.
//
// Where rank 0 is stopped just when others give up, for longer than those wait for its answer (a second, or their
// timeout where that is shorter), they do, and it may find that all are there: it then waits for them until its
// deadline. Who has said that it has the prefix counts as there, also when it is dead, until another process comes for
// its rank.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "paceline/core/clock.h"

namespace paceline::comm {

/// Collective. Throws CollectiveError after `timeout`, or a second later (and a millisecond for each rank) where the
/// store answers, for want of those that have not come, and what the store throws. The store needs compareSet(), which
/// those of c10d have.
c10::intrusive_ptr<c10d::Store> agree_on_keys(const c10::intrusive_ptr<c10d::Store>& given, int64_t rank,
                                              int64_t world_size, std::chrono::milliseconds timeout,
                                              const Clock& clock = SystemClock());

}  // namespace paceline::comm
