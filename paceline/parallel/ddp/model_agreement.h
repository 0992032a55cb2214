// Whether all ranks hold the same model: what a model consists of, which numbers are in it, and the first difference
// between ranks.
//
// Pure functions; data_parallel.cpp gathers the descriptions.
#pragma once

#include <torch/torch.h>

#include <optional>
#include <string>
#include <vector>

#include "paceline/core/json.h"

namespace paceline::parallel {

/// A parameter or buffer and the first of its names. Tensors that a model holds several times appear once.
struct NamedTensor {
  std::string name;
  torch::Tensor tensor;
};

/// In the order of named_parameters().
std::vector<NamedTensor> parameters_of(const torch::nn::Module& module);
std::vector<NamedTensor> buffers_of(const torch::nn::Module& module);

/// Without their names.
std::vector<torch::Tensor> tensors_of(const std::vector<NamedTensor>& named);

/// Kind, name, dtype, shape and whether it is trained, of every parameter and buffer, in order.
Json describe_model(const torch::nn::Module& module);

/// The first thing in which a rank's model differs from rank 0's, as a sentence; nullopt when all are alike.
std::optional<std::string> find_difference(const std::vector<Json>& models_by_rank);

/// A number a tensor, in order: equal for equal bytes and, but by rare chance, for no others. On the CPU.
torch::Tensor checksums(const std::vector<torch::Tensor>& tensors);

/// Of the checksums of each rank the first that differs from rank 0's: its place, and the ranks; nullopt when there is
/// none.
struct WeightDifference {
  int64_t place = 0;
  std::vector<int64_t> ranks;
};
std::optional<WeightDifference> find_difference(const std::vector<torch::Tensor>& checksums_by_rank);

}  // namespace paceline::parallel
