// How rows of a data set become one batch.
//
// A data set is a map-style torch::data data set (also one chained with map(Stack<>())), or any class with size() and
// either get_batch(rows), which gives a whole batch at once and is the fast way, or get(row). Examples are stacked
// along a new first dimension; a data set of other examples gives a std::vector of them as its batch.
//
//     struct Squares {
//       torch::data::Example<> get(size_t row) { return {torch::full({1}, row), torch::full({1}, row * row)}; }
//       size_t size() const { return 1000; }
//     };
//     for (auto& [number, square] : paceline::prepare_data_loader(Squares(), {.batch_size = 32})) …   // [32, 1] each
#pragma once

#include <torch/torch.h>

#include <concepts>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "paceline/core/error.h"

namespace paceline::loader {

template <class Dataset>
concept HasGet = requires(Dataset& dataset) { dataset.get(size_t{0}); };

template <class Dataset>
concept HasGetBatch = requires(Dataset& dataset, std::vector<size_t> rows) { dataset.get_batch(rows); };

/// Whether get_batch() is torch's own, which only calls get() row by row.
template <class Dataset>
constexpr bool inherits_get_batch() {
  if constexpr (HasGet<Dataset> && requires { typename Dataset::ExampleType; }) {
    return std::is_base_of_v<torch::data::datasets::Dataset<Dataset, typename Dataset::ExampleType>, Dataset> &&
           std::is_same_v<decltype(&Dataset::get_batch),
                          decltype(&torch::data::datasets::Dataset<Dataset, typename Dataset::ExampleType>::get_batch)>;
  } else {
    return false;
  }
}

template <class Batch>
Batch collate(Batch batch) {
  return batch;
}
inline torch::data::Example<> collate(std::vector<torch::data::Example<>> examples) {
  return torch::data::transforms::Stack<>().apply_batch(std::move(examples));
}
inline torch::data::TensorExample collate(std::vector<torch::data::TensorExample> examples) {
  return torch::data::transforms::Stack<torch::data::TensorExample>().apply_batch(std::move(examples));
}
inline torch::Tensor collate(const std::vector<torch::Tensor>& examples) {
  return torch::stack(examples);
}

[[noreturn]] inline void throw_load_error(const std::string& what, const char* reason) {
  std::throw_with_nested(Error("the data set failed at " + what + ": " + reason));
}

inline std::string name_rows(const std::vector<size_t>& rows) {
  constexpr size_t kShown = 8;
  std::string text = "one of the rows";
  for (size_t i = 0; i < rows.size() && i < kShown; ++i) text += (i == 0 ? " " : ", ") + std::to_string(rows[i]);
  return rows.size() > kShown ? text + ", … (" + std::to_string(rows.size()) + " rows)" : text;
}

/// The batch of `rows`. Error naming the row, with the data set's exception nested in it.
template <class Dataset>
auto load_batch(Dataset& dataset, const std::vector<size_t>& rows) {
  static_assert(HasGet<Dataset> || HasGetBatch<Dataset>,
                "a data set needs get(row) or get_batch(rows); iterable (stream) data sets have no rows to share out");
  if constexpr (HasGetBatch<Dataset> && !inherits_get_batch<Dataset>()) {
    try {
      return collate(dataset.get_batch(rows));
    } catch (const std::exception& error) {
      throw_load_error(name_rows(rows), error.what());
    }
  } else {
    std::vector<std::decay_t<decltype(dataset.get(size_t{0}))>> examples;
    examples.reserve(rows.size());
    for (const size_t row : rows) {
      try {
        examples.push_back(dataset.get(row));
      } catch (const std::exception& error) {
        throw_load_error("row " + std::to_string(row), error.what());
      }
    }
    return collate(std::move(examples));
  }
}

template <class Dataset>
using BatchOf = decltype(load_batch(std::declval<Dataset&>(), std::vector<size_t>()));

template <class T>
std::optional<size_t> optional_size(const std::optional<T>& size) {
  return size;
}
inline std::optional<size_t> optional_size(size_t size) {
  return size;
}

/// Rows of the data set; ConfigError when it does not know.
template <class Dataset>
int64_t row_count(const Dataset& dataset) {
  const std::optional<size_t> size = optional_size(dataset.size());
  if (!size) throw ConfigError("the data set does not know its size; a data loader shares out rows by number");
  return static_cast<int64_t>(*size);
}

}  // namespace paceline::loader
