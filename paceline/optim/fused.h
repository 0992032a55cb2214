// AdamW, Adam and SGD on ATen's fused kernels, with the options, results and state of torch::optim's. They take one
// pass over memory for each parameter, which is about ten times faster on the CPU.
//
// They are torch::optim's classes with another step(). Parameter groups, state(), save() and load(), schedulers and
// optimizer_state() work unchanged, and each can read a state that the other has saved. A parameter without a gradient,
// and its state, are left alone, so a void step changes nothing. Not thread-safe. Gradients must be dense and real;
// otherwise step() throws UsageError.
//
// Parameters of bfloat16 and float16 are rounded once per step, not after each operation as with torch::optim. On the
// CPU SGD makes float32 copies of these, one parameter at a time, because LibTorch's kernel for them does not work.
// Parameters that are slices of larger tensors are also updated through copies.
#pragma once

#include <torch/torch.h>

namespace paceline::optim {

using torch::optim::AdamOptions;
using torch::optim::AdamWOptions;
using torch::optim::SGDOptions;

/// Adam with decoupled weight decay.
///
///     paceline::optim::AdamW optimizer(model->parameters(), paceline::optim::AdamWOptions(3e-4).weight_decay(0.1));
class AdamW : public torch::optim::AdamW {
 public:
  using torch::optim::AdamW::AdamW;
  /// Updates the parameters from their gradients. Calls `closure`, if given, first, with gradients enabled, and returns
  /// what it returns; without one it returns an undefined tensor. Throws UsageError for a sparse gradient or a complex
  /// parameter.
  torch::Tensor step(LossClosure closure = nullptr) override;
};

/// Adam, with weight decay as an L2 penalty.
///
///     paceline::optim::Adam optimizer(model->parameters(), 1e-3);
class Adam : public torch::optim::Adam {
 public:
  using torch::optim::Adam::Adam;
  /// As AdamW::step().
  torch::Tensor step(LossClosure closure = nullptr) override;
};

/// Stochastic gradient descent, with momentum, dampening, Nesterov momentum and weight decay.
///
///     paceline::optim::SGD optimizer(model->parameters(), paceline::optim::SGDOptions(0.1).momentum(0.9));
class SGD : public torch::optim::SGD {
 public:
  using torch::optim::SGD::SGD;
  /// As AdamW::step().
  torch::Tensor step(LossClosure closure = nullptr) override;
};

}  // namespace paceline::optim
