// AdamW, Adam and SGD on ATen's fused kernels: one pass over memory for each parameter, about ten times faster on the
// CPU than torch::optim's, with the same options, results and state.
//
// They are torch::optim's classes with another step(): parameter groups, state(), save() and load(), schedulers and
// optimizer_state() work unchanged, and a state saved by one is read by the other. A parameter without gradient is left
// alone with its state, so a void step changes nothing. Not thread-safe. Gradients must be dense and real: UsageError
// otherwise.
//
// Parameters of bfloat16 and float16 are rounded once a step, not after each operation as torch::optim's are. On the
// CPU SGD makes float32 copies of these, one parameter at a time: LibTorch's kernel for them does not work. Parameters
// that are slices of larger tensors are updated by way of copies, too.
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
  /// Updates the parameters from their gradients. Gives what `closure`, called first with gradients enabled, returns;
  /// an undefined tensor without one. UsageError for a sparse gradient and a complex parameter.
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
