// join: loops over data of uneven length. Ranks whose data ends early take part in the collectives of the others'
// models until the data of all ranks has ended.
//
// Corresponds to Python's DistributedDataParallel.join() and torch.distributed.algorithms.Join. It covers only the
// synchronised backwards of models. Every rank must call other collectives in the loop (all_reduce(), a report() with a
// collective save) equally often, or not at all.
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

/// Runs `loop`, which may make a different number of steps on each rank, and returns when the loops of all ranks have
/// returned. Collective. `items` are the models that it trains, which prepare_model() has prepared, and everything that
/// must be equal on all ranks afterwards: their optimizers and schedulers, as for Checkpoint::save(). A rank whose loop
/// has returned makes no more steps; in the end its items are set to those of a rank that made the last step. If you
/// leave out an optimizer, its momenta stay as they were.
///
/// Throws UsageError for a model that prepare_model() has not seen, and if there is no model; ConfigError for a model
/// with SyncBatchNorm; CollectiveError as backward does, and where JoinOptions ask for it. If the loop throws, join()
/// throws the same exception, and the other ranks wait for this one.
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
