// GradScaler: keeps float16 gradients from becoming zero, by the rules of torch.amp.GradScaler.
//
// It multiplies the loss by a scale before backward, and divides the gradients by it before the step. It skips a step
// whose gradients are not finite, and then shrinks the scale; after enough good steps the scale grows. All ranks decide
// alike: those that hold parts of the gradients ask one another (parallel/parallel_model.h). A void step (without
// gradients) does not count as a step. Not thread-safe.
#pragma once

#include <torch/torch.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/config/field.h"
#include "paceline/state/held.h"
#include "paceline/state/stateful.h"

namespace paceline {

// How a GradScaler adjusts its scale.
#define PACELINE_GRAD_SCALER_OPTIONS_FIELDS(FIELD)                                                                     \
  FIELD(double, init_scale, 65536.0, ::paceline::more_than(0), "Initial scale")                                        \
  FIELD(double, growth_factor, 2.0, ::paceline::more_than(1), "Factor by which the scale grows")                       \
  FIELD(double, backoff_factor, 0.5, ::paceline::between(0, 1), "Factor by which the scale shrinks after an overflow") \
  FIELD(int64_t, growth_interval, 2000, ::paceline::at_least(1),                                                       \
        "Consecutive steps without overflow after which the scale grows")                                              \
  FIELD(bool, enabled, true, ::paceline::any_value(), "False: losses are not scaled, and no step is skipped")
PACELINE_CONFIG(GradScalerOptions, PACELINE_GRAD_SCALER_OPTIONS_FIELDS);

class GradScaler final : public Stateful {
 public:
  /// Throws ConfigError for options that are not allowed.
  explicit GradScaler(GradScalerOptions options = {});

  /// Returns `loss` times the scale: a tensor of the same shape, connected to the graph.
  ///
  ///     scaler.scale(loss).backward();
  ///     scaler.unscale_(optimizer);                              // only needed to clip
  ///     paceline::clip_grad_norm(model->parameters(), 1.0);
  ///     scaler.step(optimizer);
  ///     scaler.update();
  torch::Tensor scale(const torch::Tensor& loss);
  /// Divides the gradients of the optimizer's parameters by the scale. Throws UsageError if it is called twice in a
  /// step, if backward ran on a loss that was not scaled, or if a parameter is float16 itself.
  void unscale_(torch::optim::Optimizer& optimizer);
  /// Calls unscale_() unless you have, then optimizer.step(), but not if a gradient is not finite. Returns whether the
  /// step was taken. Waits for the device. Throws UsageError if it is called twice before update(), and as unscale_()
  /// does.
  bool step(torch::optim::Optimizer& optimizer);
  /// The same for a pointer to an optimizer, smart or not.
  template <PointerTo<torch::optim::Optimizer> Pointer>
  void unscale_(const Pointer& optimizer) {
    unscale_(held(optimizer, "an optimizer"));
  }
  /// The same for a pointer to an optimizer, smart or not; UsageError for null.
  template <PointerTo<torch::optim::Optimizer> Pointer>
  bool step(const Pointer& optimizer) {
    return step(held(optimizer, "an optimizer"));
  }
  /// Call it after the steps of all optimizers: sets the next scale, or `new_scale` if given. The scale stays if there
  /// was no gradient since the last update(). Throws UsageError if `new_scale` is not a positive number.
  void update(std::optional<double> new_scale = std::nullopt);

  /// The current scale; 1 when not enabled. Waits for the device.
  double get_scale() const;
  /// Whether losses are scaled.
  bool is_enabled() const { return options_.enabled; }

  std::string kind() const override { return "scaler"; }
  Placement placement() const override { return Placement::replicated; }
  StateDict state_dict() const override;
  void load_state_dict(const StateDict& state) override;

 private:
  enum class Stage { ready, unscaled, stepped };
  struct OptimizerStep {
    Stage stage = Stage::ready;
    std::vector<torch::Tensor> found_inf;  // one for each device: 1 when a gradient was not finite
  };
  void make_tensors(torch::Device device);

  GradScalerOptions options_;
  int64_t growth_tracker_start_ = 0;
  torch::Tensor scale_;                                            // on the first loss's device; undefined until then
  torch::Tensor growth_tracker_;                                   // good steps in a row
  std::map<const torch::optim::Optimizer*, OptimizerStep> steps_;  // since the last update()
};

}  // namespace paceline
