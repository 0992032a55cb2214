// autocast: a scope in which operators compute in a lower precision where that is safe.
//
// A scope affects the calling thread and one device type. Scopes nest. Leaving the outermost scope clears the cache of
// cast weights.
#pragma once

#include <torch/torch.h>

#include <optional>

namespace paceline {

/// What autocast() returns: the scope lasts as long as this object.
class Autocast {
 public:
  /// Use autocast().
  Autocast(torch::DeviceType device, torch::ScalarType dtype, bool enabled);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  torch::DeviceType device_;
  torch::ScalarType outer_dtype_;
  bool outer_enabled_;
};

/// Begins a scope of mixed precision. `dtype` is by default torch's for the device: bfloat16 on the CPU, float16 on
/// CUDA. To train with float16, use a GradScaler as well. With `enabled` false the scope computes in full precision,
/// also inside another scope.
///
///     torch::Tensor loss;
///     {
///       const auto scope = paceline::autocast(device);
///       loss = torch::nn::functional::cross_entropy(model->forward(images), labels);
///     }
///     loss.backward();   // outside
[[nodiscard]] Autocast autocast(torch::Device device, std::optional<torch::ScalarType> dtype = std::nullopt,
                                bool enabled = true);

}  // namespace paceline
