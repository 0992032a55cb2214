// Which rows a rank reads in an epoch, and in which order: the order of PyTorch's DistributedSampler.
//
// Pure functions. An epoch has one global order of rows, the same on every rank: 0, 1, 2, … or, shuffled, the
// permutation that torch.randperm draws from a generator seeded with seed + epoch. Rank r of W takes places r, r + W, r
// + 2W, … of it, so that one step of all ranks is one contiguous piece of the global order. A position counts rows of
// the global order that are done; whoever goes on from it, at whatever world size, shares out the rest by the same
// rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

/// What happens to the rows left over when the world size does not divide them.
enum class Remainder {
  pad,   ///< ranks get equally many: rows from the start of the order are given again
  drop,  ///< ranks get equally many: the last rows are left out
  keep   ///< each row exactly once: ranks may differ by one row
};

/// What decides the rows of a rank in an epoch.
struct OrderOptions {
  int64_t size = 0;                      ///< rows of the dataset
  int64_t world_size = 1;                ///< ranks that share the rows
  int64_t rank = 0;                      ///< 0 ≤ rank < world_size
  int64_t seed = 0;                      ///< of shuffled orders; the same on all ranks
  int64_t epoch = 0;                     ///< from 0; a shuffled order is drawn from seed + epoch
  bool shuffle = false;                  ///< another order in each epoch
  Remainder remainder = Remainder::pad;  ///< the rows left over
  int64_t position = 0;                  ///< rows of the global order that are done, 0 ≤ position ≤ size
};

/// The rows for `rank`, in order: those that DistributedSampler gives, from `position` on.
///
///     distributed_order({.size = 5, .world_size = 2, .rank = 1});   // 1, 3, 0: the last row is padding
std::vector<size_t> distributed_order(const OrderOptions& options);

/// The global order of an epoch: a permutation of 0 … size - 1, or those in order without `shuffle`.
std::vector<size_t> global_order(int64_t size, bool shuffle, int64_t seed, int64_t epoch);

/// The share of options.rank in `global`, an order of options.size rows, from options.position on.
std::vector<size_t> share_of_rank(const std::vector<size_t>& global, const OrderOptions& options);

/// How many rows share_of_rank() and distributed_order() give, without making them.
int64_t share_size(const OrderOptions& options);

}  // namespace paceline
