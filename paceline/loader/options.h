// DataLoaderOptions: how a dataset becomes batches. LoaderPlace: the loader's place among the ranks.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>

#include "paceline/core/config/field.h"
#include "paceline/state/step.h"

namespace paceline {

#define PACELINE_DATA_LOADER_OPTIONS_FIELDS(FIELD)                                                                     \
  FIELD(int64_t, batch_size, 1, ::paceline::at_least(1), "Rows in each batch of a rank")                               \
  FIELD(bool, shuffle, false, ::paceline::any_value(), "A different order in each epoch, the same on all ranks")       \
  FIELD(bool, drop_last, false, ::paceline::any_value(),                                                               \
        "Leave out rows that do not fill a batch on every rank; otherwise some rows are given twice, so that ranks "   \
        "get equally many, and the last batch may be smaller")                                                         \
  FIELD(int64_t, seed, 0, ::paceline::any_value(),                                                                     \
        "Seed of the shuffled orders and of the rows' random numbers; must be the same on all ranks")                  \
  FIELD(int64_t, num_workers, 1, ::paceline::at_least(0),                                                              \
        "Threads that load batches ahead, each with its own copy of the dataset and without LibTorch's thread pool; "  \
        "0: the training thread loads")                                                                                \
  FIELD(int64_t, prefetch, 2, ::paceline::at_least(1), "Batches that the threads load ahead, at least one per thread") \
  FIELD(                                                                                                               \
      std::optional<bool>, pin_memory, std::nullopt, ::paceline::any_value(),                                          \
      "Load into page-locked memory, from which a GPU can copy while it computes; no effect on the CPU; not set: yes") \
  FIELD(bool, evaluation, false, ::paceline::any_value(),                                                              \
        "Give each row to exactly one rank; the ranks' numbers of rows may then differ by one; batches do not count "  \
        "as training steps")
PACELINE_CONFIG(DataLoaderOptions, PACELINE_DATA_LOADER_OPTIONS_FIELDS);

/// What a loader needs to know about its surroundings; prepare_data_loader() fills it in. The default is a single
/// process.
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
  /// Called on the training thread whenever a batch is asked for, before waiting for it. An exception that it throws
  /// ends the loop.
  std::function<void()> before_batch = nullptr;
  /// Called on the training thread when a batch is about to be handed out.
  std::function<void()> after_batch = nullptr;
};

}  // namespace paceline
