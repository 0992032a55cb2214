// How rows of a dataset become a batch.
//
// A dataset is a map-style torch::data dataset (also one chained with map(Stack<>())), or any class with size() and
// either get(row) or get_batch(rows). The latter makes a whole batch at once, which is faster. Examples are stacked
// along a new first dimension; if they are of another type, a batch is a std::vector of them.
//
//     struct Squares {
//       torch::data::Example<> get(size_t row) { return {torch::full({1}, row), torch::full({1}, row * row)}; }
//       size_t size() const { return 1000; }
//     };
//     for (auto& [number, square] : paceline::prepare_data_loader(Squares(), {.batch_size = 32})) …   // [32, 1] each
//
// Random numbers (for augmentation) depend only on the loader's seed, the epoch and the row, in get_batch() on the
// first row. They do not depend on threads, ranks, restarts or torch::manual_seed(), and do not affect the train loop's
// random numbers. LibTorch's operators draw in this way by themselves (loader/row_random.h). A dataset that wants to
// name the generator, or seed one of its own with it, takes it as a second argument:
//
//     torch::Tensor get(size_t row, torch::Generator& generator) { return images[row] + torch::rand({8}, generator); }
#pragma once

#include <torch/torch.h>

#include <concepts>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "paceline/core/error.h"
#include "paceline/loader/row_random.h"

namespace paceline::loader {

template <class Dataset>
concept HasGet = requires(Dataset& dataset) { dataset.get(size_t{0}); };

template <class Dataset>
concept HasGetBatch = requires(Dataset& dataset, std::vector<size_t> rows) { dataset.get_batch(rows); };

template <class Dataset>
concept HasRandomGet = requires(Dataset& dataset, torch::Generator& generator) { dataset.get(size_t{0}, generator); };

template <class Dataset>
concept HasRandomGetBatch = requires(Dataset& dataset, std::vector<size_t> rows, torch::Generator& generator) {
  dataset.get_batch(rows, generator);
};

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

[[noreturn]] inline void throw_load_error(const std::string& what, const std::exception& error) {
  const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
  const std::string reason = of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
  std::throw_with_nested(Error("the dataset failed at " + what + ": " + reason));
}

inline std::string name_rows(const std::vector<size_t>& rows) {
  constexpr size_t kShown = 8;
  std::string text = "one of the rows";
  for (size_t i = 0; i < rows.size() && i < kShown; ++i) text += (i == 0 ? " " : ", ") + std::to_string(rows[i]);
  return rows.size() > kShown ? text + ", … (" + std::to_string(rows.size()) + " rows)" : text;
}

inline std::vector<torch::Tensor> tensors_of(const torch::Tensor& example) {
  return {example};
}
inline std::vector<torch::Tensor> tensors_of(const torch::data::Example<>& example) {
  return {example.data, example.target};
}
inline std::vector<torch::Tensor> tensors_of(const torch::data::TensorExample& example) {
  return {example.data};
}
template <class Example>
std::vector<torch::Tensor> tensors_of(const Example&) {
  return {};  // is not stacked
}

/// Error naming the first row that has no tensor, or one that cannot be stacked on the first one's.
template <class Example>
void check_shapes(const std::vector<Example>& examples, const std::vector<size_t>& rows) {
  for (size_t i = 0; i < examples.size(); ++i) {
    const auto first = tensors_of(examples[0]), other = tensors_of(examples[i]);
    for (size_t k = 0; k < first.size(); ++k) {
      if (!other[k].defined()) {
        throw Error("row " + std::to_string(rows[i]) + " of the dataset has a tensor that is not defined");
      }
      if (first[k].sizes() == other[k].sizes()) continue;
      throw Error("the rows of a batch do not have one shape: row " + std::to_string(rows[i]) + " has " +
                  c10::str(other[k].sizes()) + ", row " + std::to_string(rows[0]) + " has " +
                  c10::str(first[k].sizes()) + ". Crop or pad them in get(), or make the batch in get_batch(rows)");
    }
  }
}

template <class Dataset>
auto load_row(Dataset& dataset, size_t row, const RowSeed& seed) {
  RowRandom random(seed, row);
  if constexpr (HasRandomGet<Dataset>) {
    torch::Generator generator = random.generator();
    return dataset.get(row, generator);
  } else {
    return dataset.get(row);
  }
}

inline size_t first_of(const std::vector<size_t>& rows) {
  return rows.empty() ? 0 : rows.front();
}

/// The batch of `rows`. Error naming the row, with the dataset's exception nested in it.
template <class Dataset>
auto load_batch(Dataset& dataset, const std::vector<size_t>& rows, const RowSeed& seed = {}) {
  constexpr bool kRandom = HasRandomGet<Dataset> || HasRandomGetBatch<Dataset>;
  static_assert(HasGet<Dataset> || HasGetBatch<Dataset> || kRandom,
                "a dataset needs get(row) or get_batch(rows); iterable (stream) datasets have no rows to share out");
  if constexpr (HasRandomGetBatch<Dataset>) {
    try {
      RowRandom random(seed, first_of(rows));
      torch::Generator generator = random.generator();
      return collate(dataset.get_batch(rows, generator));
    } catch (const std::exception& error) {
      throw_load_error(name_rows(rows), error);
    }
  } else if constexpr (!kRandom && HasGetBatch<Dataset> && !inherits_get_batch<Dataset>()) {
    try {
      const RowRandom random(seed, first_of(rows));
      return collate(dataset.get_batch(rows));
    } catch (const std::exception& error) {
      throw_load_error(name_rows(rows), error);
    }
  } else {
    std::vector<std::decay_t<decltype(load_row(dataset, size_t{0}, seed))>> examples;
    examples.reserve(rows.size());
    for (const size_t row : rows) {
      try {
        examples.push_back(load_row(dataset, row, seed));
      } catch (const std::exception& error) {
        throw_load_error("row " + std::to_string(row), error);
      }
    }
    check_shapes(examples, rows);
    try {
      return collate(std::move(examples));
    } catch (const std::exception& error) {
      throw_load_error(name_rows(rows), error);
    }
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

/// Rows of the dataset; ConfigError when it does not know.
template <class Dataset>
int64_t row_count(const Dataset& dataset) {
  const std::optional<size_t> size = optional_size(dataset.size());
  if (!size) throw ConfigError("the dataset does not know its size; a data loader shares out rows by number");
  return static_cast<int64_t>(*size);
}

}  // namespace paceline::loader
