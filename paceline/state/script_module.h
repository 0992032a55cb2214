// script_module(): a TorchScript module's parameters and buffers as a torch::nn::Module.
#pragma once

#include <torch/torch.h>

#include <memory>

namespace paceline {

/// A module with the parameters, buffers and children of `module`, under the same names and sharing the tensors: what
/// trains, moves, saves or loads them does so for both. It has no forward() and does not follow train() and eval().
/// Gives the same one as long as somebody holds it. Thread-safe.
std::shared_ptr<torch::nn::Module> script_module(const torch::jit::Module& module);

}  // namespace paceline
