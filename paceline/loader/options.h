// DataLoaderOptions: how a data set becomes batches. LoaderPlace: where the loader stands among the ranks.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>

#include "paceline/core/config/field.h"
#include "paceline/state/step.h"

namespace paceline {

#define PACELINE_DATA_LOADER_OPTIONS_FIELDS(FIELD)                                                                    \
  FIELD(int64_t, batch_size, 1, ::paceline::at_least(1), "Rows in a batch of each rank")                              \
  FIELD(bool, shuffle, false, ::paceline::any_value(), "Another order in each epoch, the same for all ranks")         \
  FIELD(bool, drop_last, false, ::paceline::any_value(),                                                              \
        "Leave out the rows that do not fill a batch on every rank; otherwise ranks get equally many rows by giving " \
        "some twice, and the last batch may be smaller")                                                              \
  FIELD(int64_t, seed, 0, ::paceline::any_value(),                                                                    \
        "Of the shuffled orders and of the rows' random numbers; the same on all ranks")                              \
  FIELD(int64_t, num_workers, 1, ::paceline::at_least(0),                                                             \
        "Threads that load ahead of the training thread, each with its own copy of the data set and without a team "  \
        "of LibTorch's threads; 0 loads in the training thread")                                                      \
  FIELD(int64_t, prefetch, 2, ::paceline::at_least(1), "Batches that threads load ahead; never fewer than threads")   \
  FIELD(std::optional<bool>, pin_memory, std::nullopt, ::paceline::any_value(),                                       \
        "Load into page-locked memory, from which a device copies while it computes; without effect on the CPU; "     \
        "not set: yes")                                                                                               \
  FIELD(bool, evaluation, false, ::paceline::any_value(),                                                             \
        "Give each row exactly once over all ranks, which may then differ by one row; batches are not training steps")
PACELINE_CONFIG(DataLoaderOptions, PACELINE_DATA_LOADER_OPTIONS_FIELDS);

/// What a loader needs to know of its surroundings; prepare_data_loader() fills it in. The default is a single process.
///
///     DataLoader loader(Numbers(100), {.batch_size = 10}, {.rank = 1, .world_size = 4});   // without a session
struct LoaderPlace {
  /// 0 ≤ rank < world_size.
  int64_t rank = 0;
  /// Ranks that share the rows.
  int64_t world_size = 1;
  /// Where batches go.
  torch::Device device = torch::kCPU;
  /// Says whether the step of the batch in hand was void; may be null.
  std::shared_ptr<StepLedger> ledger = nullptr;
  /// Called on the training thread whenever a batch is asked for, before waiting for it. What it throws ends the loop.
  std::function<void()> before_batch = nullptr;
  /// Called on the training thread when a batch is about to be handed out.
  std::function<void()> after_batch = nullptr;
};

}  // namespace paceline
