// Whether all ranks hold the same model: what a model consists of, and the first difference between ranks.
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

/// Kind, name, dtype, shape and whether it is trained, of every parameter and buffer, in order.
Json describe_model(const torch::nn::Module& module);

/// The first thing in which a rank's model differs from rank 0's, as a sentence; nullopt when all are alike.
std::optional<std::string> find_difference(const std::vector<Json>& models_by_rank);

}  // namespace paceline::parallel
