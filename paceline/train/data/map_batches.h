// PACELINE_MAP_BATCHES and PACELINE_MAP: register a function of tensors, so that a dataset can apply it to its rows in
// any process of the program.
//
// Functions are registered before main. Threads that read call them, several at the same time, without gradients: they
// must not change what they share. What one throws is the error of the batch.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "paceline/data/operator/map_batches.h"
#include "paceline/train/data/batch.h"

namespace paceline {
namespace train {

/// What calls `function`: the rows' columns as tensors, and the tensors that it gives as columns.
data::BlockFunction block_function(std::function<TensorBatch(TensorBatch, torch::Generator&)> function);
/// What calls `function` for each row, whose tensors have no dimension for rows: the rows that it gives.
data::BlockFunction row_function(std::function<std::vector<TensorBatch>(TensorBatch, torch::Generator&)> function);
/// What calls `function` for each row: those for which it gives true, as they are.
data::BlockFunction condition_function(std::function<bool(TensorBatch, torch::Generator&)> function);

/// `function` with a generator, which it may not take.
template <class Function>
auto with_chance(Function* function) {
  return [function](TensorBatch given, torch::Generator& chance) {
    if constexpr (std::is_invocable_v<Function*, TensorBatch, torch::Generator&>) {
      return function(std::move(given), chance);
    } else {
      return function(std::move(given));
    }
  };
}

/// Whether a function that takes a batch or a row, and may take a generator, gives a `Made`.
template <class Made, class Function>
inline constexpr bool kGives = std::is_same_v<
    std::invoke_result_t<decltype(with_chance(std::declval<Function*>())), TensorBatch, torch::Generator&>, Made>;
template <class Function>
inline constexpr bool kTakesBatch =
    std::is_invocable_v<Function*, TensorBatch> || std::is_invocable_v<Function*, TensorBatch, torch::Generator&>;

/// Registers a function before main, where nothing could catch an error: an error ends the program with its text.
struct MapBatchesRegistration {
  template <class Function>
  MapBatchesRegistration(const char* name, Function* function) noexcept {
    static_assert(kTakesBatch<Function>,
                  "a function for map_batches() is paceline::TensorBatch f(paceline::TensorBatch batch), or the same "
                  "with a second parameter torch::Generator& for what it does by chance; one for add_column() gives a "
                  "torch::Tensor");
    const auto address = reinterpret_cast<data::FunctionAddress>(function);
    if constexpr (kGives<torch::Tensor, Function>) {
      const auto of_batch = [call = with_chance(function)](TensorBatch batch, torch::Generator& chance) {
        return TensorBatch{{"", call(std::move(batch), chance)}};
      };
      data::register_map_batches(name, address, block_function(of_batch), data::FunctionForm::column);
    } else {
      static_assert(kGives<TensorBatch, Function>, "a function for map_batches() gives a paceline::TensorBatch");
      data::register_map_batches(name, address, block_function(with_chance(function)));
    }
  }
};

/// The same of a function of a row.
struct MapRegistration {
  template <class Function>
  MapRegistration(const char* name, Function* function) noexcept {
    static_assert(
        kTakesBatch<Function>,
        "a function for map() is paceline::TensorBatch f(paceline::TensorBatch row), one for flat_map() gives "
        "a std::vector of them, one for filter() a bool; each may have a second parameter torch::Generator& "
        "for what it does by chance");
    const auto address = reinterpret_cast<data::FunctionAddress>(function);
    if constexpr (kGives<bool, Function>) {
      data::register_map_batches(name, address, condition_function(with_chance(function)),
                                 data::FunctionForm::condition);
    } else if constexpr (kGives<TensorBatch, Function>) {
      const auto one = [call = with_chance(function)](TensorBatch row, torch::Generator& chance) {
        return std::vector<TensorBatch>{call(std::move(row), chance)};
      };
      data::register_map_batches(name, address, row_function(one), data::FunctionForm::row);
    } else {
      static_assert(kGives<std::vector<TensorBatch>, Function>,
                    "a function of a row gives a paceline::TensorBatch, a std::vector of them, or a bool");
      data::register_map_batches(name, address, row_function(with_chance(function)), data::FunctionForm::rows);
    }
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
///
/// For Dataset::add_column() the function gives a torch::Tensor.
#define PACELINE_MAP_BATCHES(function) PACELINE_MAP_BATCHES_AT_(function, __COUNTER__)
#define PACELINE_MAP_BATCHES_AT_(function, number) PACELINE_MAP_BATCHES_NAMED_(function, number)
#define PACELINE_MAP_BATCHES_NAMED_(function, number)                                                              \
  [[maybe_unused]] static const ::paceline::train::MapBatchesRegistration paceline_map_batches_##number(#function, \
                                                                                                        function)

/// Registers a function of a row, at namespace scope, for Dataset::map(), flat_map() or filter(), by what it gives: a
/// row, rows, or whether the row is kept. A row's tensors have no dimension for rows. The second parameter is as above.
///
///     bool is_bright(paceline::TensorBatch row) { return row["image"].mean().item<double>() > 0.5; }
///     PACELINE_MAP(is_bright);
#define PACELINE_MAP(function) PACELINE_MAP_AT_(function, __COUNTER__)
#define PACELINE_MAP_AT_(function, number) PACELINE_MAP_NAMED_(function, number)
#define PACELINE_MAP_NAMED_(function, number) \
  [[maybe_unused]] static const ::paceline::train::MapRegistration paceline_map_##number(#function, function)
