// What a train loop gets of a dataset: tensors by the names of their columns, or a struct with a tensor for each.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>
#include <type_traits>

#include "paceline/core/error.h"

namespace paceline {

/// A batch's columns. Tensors that needed no copy share memory with the dataset: write to a clone().
using TensorBatch = std::map<std::string, torch::Tensor>;

namespace train {

/// Moves the tensor of that name out of the batch. ConfigError, with the columns that there are, if there is none.
torch::Tensor take_column(TensorBatch& batch, const char* name);

/// The batch as a `Batch`: itself, or a struct that PACELINE_BATCH has made.
template <class Batch>
Batch batch_as(TensorBatch batch) {
  if constexpr (std::is_same_v<Batch, TensorBatch>) {
    return batch;
  } else {
    Batch fields;
    Batch::visit(fields, [&](const char* name, torch::Tensor& field) { field = take_column(batch, name); });
    return fields;
  }
}

}  // namespace train
}  // namespace paceline

/// A struct of tensors, at namespace scope, one for each column that a train loop uses: up to eight names.
///
///     PACELINE_BATCH(Photographs, image, label);
///     for (auto& [image, label] : shard.iter_batches<Photographs>({.batch_size = 64})) …
#define PACELINE_BATCH(Name, ...)                      \
  struct Name {                                        \
    ::torch::Tensor __VA_ARGS__;                       \
    template <class Self, class Visitor>               \
    static void visit(Self& self, Visitor&& visitor) { \
      PACELINE_BATCH_VISIT_(__VA_ARGS__)               \
    }                                                  \
  }
#define PACELINE_BATCH_FIELD_(name) visitor(#name, self.name);
#define PACELINE_BATCH_VISIT_(first, ...) PACELINE_BATCH_FIELD_(first) __VA_OPT__(PACELINE_BATCH_VISIT_2_(__VA_ARGS__))
#define PACELINE_BATCH_VISIT_2_(first, ...) \
  PACELINE_BATCH_FIELD_(first) __VA_OPT__(PACELINE_BATCH_VISIT_3_(__VA_ARGS__))
#define PACELINE_BATCH_VISIT_3_(first, ...) \
  PACELINE_BATCH_FIELD_(first) __VA_OPT__(PACELINE_BATCH_VISIT_4_(__VA_ARGS__))
#define PACELINE_BATCH_VISIT_4_(first, ...) \
  PACELINE_BATCH_FIELD_(first) __VA_OPT__(PACELINE_BATCH_VISIT_5_(__VA_ARGS__))
#define PACELINE_BATCH_VISIT_5_(first, ...) \
  PACELINE_BATCH_FIELD_(first) __VA_OPT__(PACELINE_BATCH_VISIT_6_(__VA_ARGS__))
#define PACELINE_BATCH_VISIT_6_(first, ...) \
  PACELINE_BATCH_FIELD_(first) __VA_OPT__(PACELINE_BATCH_VISIT_7_(__VA_ARGS__))
#define PACELINE_BATCH_VISIT_7_(first, ...) PACELINE_BATCH_FIELD_(first) __VA_OPT__(PACELINE_BATCH_FIELD_(__VA_ARGS__))
