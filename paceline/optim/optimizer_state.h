// The state of an optimizer by parameter name: what a checkpoint holds of it, for torch::optim's SGD, Adam, AdamW,
// Adagrad and RMSprop, and Paceline's.
//
// Tensors are called "<parameter>.<field>", as in "layer1.weight.exp_avg"; values hold the kind, the options and
// parameter names of each group, and the step number of each parameter. Names, not places, tie state to parameters: a
// model may register its parameters in another order. Not thread-safe.
#pragma once

#include <torch/torch.h>

#include <string>
#include <unordered_map>

#include "paceline/state/stateful.h"

namespace paceline::optim {

/// Names of parameters, by the identity of the tensor.
using ParameterNames = std::unordered_map<const c10::TensorImpl*, std::string>;

/// The names of named_parameters(); a parameter with several names has the first.
ParameterNames parameter_names(const torch::nn::Module& module);

/// Tensors share storage with the optimizer's. ConfigError for a parameter without a name or another kind of optimizer.
StateDict optimizer_state(const torch::optim::Optimizer& optimizer, const ParameterNames& names);

/// Puts the state into `optimizer`, all or nothing: copies of the tensors on the parameters' devices, and the options,
/// learning rates included. ConfigError naming the parameters that are missing, left over or of another shape.
void load_optimizer_state(torch::optim::Optimizer& optimizer, const ParameterNames& names, const StateDict& state);

}  // namespace paceline::optim
