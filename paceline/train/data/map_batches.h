// PACELINE_MAP_BATCHES: registers a function of tensors, so that a dataset can apply it to its rows in any process of
// the program.
//
// Functions are registered before main. Threads that read call them, several at the same time, without gradients: they
// must not change what they share. What one throws is the error of the batch.
#pragma once

#include <torch/torch.h>

#include <string>
#include <type_traits>

#include "paceline/data/operator/map_batches.h"
#include "paceline/train/data/batch.h"

namespace paceline {
namespace train {

/// What calls `function`: the rows' columns as tensors, and the tensors that it gives as columns.
data::BlockFunction block_function(std::function<TensorBatch(TensorBatch, torch::Generator&)> function);

/// Registers a function before main, where nothing could catch an error: an error ends the program with its text.
struct MapBatchesRegistration {
  template <class Function>
  MapBatchesRegistration(const char* name, Function* function) noexcept {
    static_assert(std::is_invocable_r_v<TensorBatch, Function*, TensorBatch> ||
                      std::is_invocable_r_v<TensorBatch, Function*, TensorBatch, torch::Generator&>,
                  "a function for map_batches() is paceline::TensorBatch f(paceline::TensorBatch batch), or the same "
                  "with a second parameter torch::Generator& for what it does by chance");
    data::register_map_batches(name, reinterpret_cast<data::FunctionAddress>(function),
                               block_function([function](TensorBatch batch, torch::Generator& chance) {
                                 if constexpr (std::is_invocable_v<Function*, TensorBatch, torch::Generator&>) {
                                   return function(std::move(batch), chance);
                                 } else {
                                   return function(std::move(batch));
                                 }
                               }));
  }
};

}  // namespace train
}  // namespace paceline

/// Registers a function for Dataset::map_batches(), at namespace scope. The forms are `TensorBatch f(TensorBatch)` and,
/// for what is done by chance, `TensorBatch f(TensorBatch, torch::Generator&)`: the generator is seeded anew for each
/// call, so that the same rows get the same numbers in any thread, process and world size.
///
///     paceline::TensorBatch normalize(paceline::TensorBatch batch) {
///       batch["image"] = batch["image"].to(torch::kFloat32) / 255;
///       return batch;
///     }
///     PACELINE_MAP_BATCHES(normalize);
#define PACELINE_MAP_BATCHES(function) PACELINE_MAP_BATCHES_AT_(function, __COUNTER__)
#define PACELINE_MAP_BATCHES_AT_(function, number) PACELINE_MAP_BATCHES_NAMED_(function, number)
#define PACELINE_MAP_BATCHES_NAMED_(function, number)                                                              \
  [[maybe_unused]] static const ::paceline::train::MapBatchesRegistration paceline_map_batches_##number(#function, \
                                                                                                        function)
