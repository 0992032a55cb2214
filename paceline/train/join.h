// join: loops over data of uneven length. Ranks whose data ends earlier take part in what the others' models do
// together, until the data of all has ended.
//
// What Python has as DistributedDataParallel.join() and torch.distributed.algorithms.Join. Only models' synchronised
// backwards are taken part in: other collectives in the loop (all_reduce(), a report() with a collective save) are
// called by every rank as often, or not at all.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <vector>

#include "paceline/parallel/join.h"
#include "paceline/train/checkpoint_state.h"

namespace paceline {

namespace train {
void join_items(const std::function<void()>& loop, const JoinOptions& options, const std::vector<Item>& items);
}  // namespace train

/// Runs `loop`, which may make another number of steps on each rank, and returns when that of every rank has returned.
/// Collective. `items` are the models that it trains, which prepare_model() has made, and whatever must be equal on all
/// ranks afterwards: their optimizers and schedulers, as for Checkpoint::save(). A rank whose loop has returned makes
/// no steps; in the end its items become those of a rank that has made the last step. Without an optimizer here, its
/// momenta stay behind.
///
/// UsageError for a model that prepare_model() has not seen, and without any; ConfigError for a model with
/// SyncBatchNorm; CollectiveError as from backward, and where JoinOptions ask for it. An exception of the loop's is
/// thrown on; the other ranks then wait for this one.
///
///     paceline::join([&] {
///       for (auto& batch : my_own_batches) train_step(batch);
///     }, model, optimizer);
template <class... Items>
void join(const std::function<void()>& loop, const JoinOptions& options, const Items&... items) {
  train::join_items(loop, options, {train::make_item(items)...});
}
/// The same with the options' defaults.
template <class... Items>
  requires(sizeof...(Items) > 0)
void join(const std::function<void()>& loop, const Items&... items) {
  train::join_items(loop, {}, {train::make_item(items)...});
}

}  // namespace paceline
