// autocast: a scope in which operators choose a lower precision for themselves where that is safe.
//
// Covers the calling thread and one device type. Scopes nest. Leaving the outermost clears the cache of cast weights.
#pragma once

#include <torch/torch.h>

#include <optional>

namespace paceline {

/// What autocast() gives: the scope lasts as long as this object.
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

/// Begins a scope of mixed precision. `dtype`: by default torch's for the device, bfloat16 on the CPU and float16 on
/// CUDA; train with float16 together with a GradScaler. `enabled` false makes a scope of full precision inside another.
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
