#include "paceline/amp/grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "paceline/core/error.h"
#include "paceline/parallel/parallel_model.h"

namespace paceline {
namespace {

using parallel::ParallelModel;
using torch::Tensor;

struct Gradients {
  torch::Device device;
  std::vector<Tensor> tensors;
};

/// The gradients of the optimizer in lists of one device and type each, as the kernel wants them.
std::vector<Gradients> gradients_of(torch::optim::Optimizer& optimizer) {
  std::map<std::tuple<c10::DeviceType, c10::DeviceIndex, at::ScalarType>, std::vector<Tensor>> lists;
  for (auto& group : optimizer.param_groups()) {
    for (const Tensor& parameter : group.params()) {
      const Tensor& gradient = parameter.grad();
      if (!gradient.defined()) continue;
      if (gradient.scalar_type() == at::kHalf) {
        throw UsageError("GradScaler: a parameter of shape " + c10::str(parameter.sizes()) +
                         " is float16 itself; keep parameters in float32 and compute in float16 under autocast");
      }
      const auto device = gradient.device();
      lists[{device.type(), device.index(), gradient.scalar_type()}].push_back(gradient.is_sparse() ? gradient._values()
                                                                                                    : gradient);
    }
  }
  std::vector<Gradients> result;
  for (auto& [key, tensors] : lists) {
    result.push_back({torch::Device(std::get<0>(key), std::get<1>(key)), std::move(tensors)});
  }
  return result;
}

/// The parallel models whose parameters the optimizer has, in the order of the parameters.
std::vector<ParallelModel*> models_of(const torch::optim::Optimizer& optimizer) {
  std::vector<ParallelModel*> models;
  for (const auto& group : optimizer.param_groups()) {
    for (const Tensor& parameter : group.params()) {
      ParallelModel* const model = ParallelModel::of(parameter);
      if (model != nullptr && std::ranges::find(models, model) == models.end()) models.push_back(model);
    }
  }
  return models;
}

}  // namespace

GradScaler::GradScaler(GradScalerOptions options) : options_(options) {
  options_.validate();
}

void GradScaler::make_tensors(torch::Device device) {
  if (scale_.defined()) return;
  scale_ = torch::full({}, options_.init_scale, torch::dtype(torch::kFloat).device(device));
  growth_tracker_ = torch::full({}, growth_tracker_start_, torch::dtype(torch::kInt).device(device));
}

Tensor GradScaler::scale(const Tensor& loss) {
  if (!options_.enabled) return loss;
  make_tensors(loss.device());
  return loss * scale_.to(loss.device(), /*non_blocking=*/true);
}

void GradScaler::unscale_(torch::optim::Optimizer& optimizer) {
  if (!options_.enabled) return;
  OptimizerStep& step = steps_[&optimizer];
  if (step.stage != Stage::ready) {
    throw UsageError(step.stage == Stage::unscaled
                         ? "GradScaler: unscale_() was already called for this optimizer since the last update()"
                         : "GradScaler: unscale_() is called after step(); call it before, or call update() first");
  }
  const torch::NoGradGuard no_grad;
  const std::vector<Gradients> gradients = gradients_of(optimizer);
  if (!gradients.empty()) {
    if (!scale_.defined()) throw UsageError("GradScaler: backward ran without scale(loss)");
    const std::vector<ParallelModel*> models = models_of(optimizer);
    const Tensor inverse = scale_.to(torch::kDouble).reciprocal().to(torch::kFloat);
    for (const Gradients& list : gradients) {
      Tensor found_inf = torch::zeros({}, torch::dtype(torch::kFloat).device(list.device));
      at::_amp_foreach_non_finite_check_and_unscale_(list.tensors, found_inf, inverse.to(list.device));
      for (ParallelModel* const model : models) {
        found_inf = model->norm_over_ranks(found_inf, std::numeric_limits<double>::infinity());
      }
      step.found_inf.push_back(std::move(found_inf));
    }
  }
  step.stage = Stage::unscaled;
}

bool GradScaler::step(torch::optim::Optimizer& optimizer) {
  if (!options_.enabled) {
    optimizer.step();
    return true;
  }
  OptimizerStep& step = steps_[&optimizer];
  if (step.stage == Stage::stepped) {
    throw UsageError("GradScaler: step() was already called for this optimizer since the last update()");
  }
  if (step.stage == Stage::ready) unscale_(optimizer);
  step.stage = Stage::stepped;
  const bool finite = std::ranges::none_of(step.found_inf, [](const Tensor& inf) { return inf.item<float>() != 0; });
  if (step.found_inf.empty() || !finite) return false;
  optimizer.step();
  return true;
}

void GradScaler::update(std::optional<double> new_scale) {
  if (!options_.enabled) return;
  if (new_scale && !(*new_scale > 0 && std::isfinite(*new_scale))) {
    throw UsageError("GradScaler: update() was given the scale " + std::to_string(*new_scale) +
                     "; wanted a positive number");
  }
  const torch::NoGradGuard no_grad;
  Tensor found_inf;
  for (const auto& [optimizer, step] : steps_) {
    for (const Tensor& inf : step.found_inf) {
      found_inf = found_inf.defined() ? found_inf + inf.to(scale_.device()) : inf.to(scale_.device());
    }
  }
  steps_.clear();
  if (new_scale) {
    make_tensors(torch::kCPU);
    scale_.fill_(*new_scale);
  } else if (found_inf.defined()) {  // otherwise no gradients: the step was void
    at::_amp_update_scale_(scale_, growth_tracker_, found_inf, options_.growth_factor, options_.backoff_factor,
                           options_.growth_interval);
  }
}

double GradScaler::get_scale() const {
  if (!options_.enabled) return 1.0;
  return scale_.defined() ? static_cast<double>(scale_.item<float>()) : options_.init_scale;
}

StateDict GradScaler::state_dict() const {
  StateDict state;
  if (!options_.enabled) return state;
  state.values = {{"scale", get_scale()},
                  {"growth_factor", options_.growth_factor},
                  {"backoff_factor", options_.backoff_factor},
                  {"growth_interval", options_.growth_interval},
                  {"growth_tracker", growth_tracker_.defined() ? growth_tracker_.item<int>() : growth_tracker_start_}};
  return state;
}

void GradScaler::load_state_dict(const StateDict& state) try {
  if (!options_.enabled) return;
  GradScalerOptions options = options_;
  state.values.at("scale").get_to(options.init_scale);
  state.values.at("growth_factor").get_to(options.growth_factor);
  state.values.at("backoff_factor").get_to(options.backoff_factor);
  state.values.at("growth_interval").get_to(options.growth_interval);
  state.values.at("growth_tracker").get_to(growth_tracker_start_);
  options_ = options;
  const Tensor old = std::exchange(scale_, Tensor());
  if (old.defined()) make_tensors(old.device());
  steps_.clear();
} catch (const Json::exception& error) {
  throw ConfigError(std::string("the saved state is not that of a gradient scaler: ") + error.what());
}

}  // namespace paceline
