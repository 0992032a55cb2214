#include "paceline/train/nan_watch.h"

#include <torch/csrc/autograd/engine.h>

#include <cmath>

namespace paceline::train {
namespace {

// A training whose numbers are lost says so in every step: these are enough.
constexpr int64_t kMostLines = 10;

torch::Tensor values_of(const torch::Tensor& gradient) {
  torch::Tensor values = gradient.detach();
  if (values.is_sparse()) values = values._values();
  return values.is_complex() ? torch::view_as_real(values) : values;
}

// NaN if any value is, infinite if any value is, else finite: one number of each gradient, without a transfer. In
// float64, where the difference of two finite halves or floats is finite.
torch::Tensor extremes_of(const torch::Tensor& values) {
  const auto [low, high] = torch::aminmax(values);
  return high.to(torch::kFloat64) - low.to(torch::kFloat64);
}

std::string describe_values(const torch::Tensor& values) {
  const auto nans = values.isnan().sum().item<int64_t>();
  const auto infinite = values.isinf().sum().item<int64_t>();
  return std::to_string(nans) + " NaN and " + std::to_string(infinite) + " infinite of " +
         std::to_string(values.numel()) + " values";
}

}  // namespace

void NanWatch::watch(const torch::nn::Module& module) {
  for (const auto& parameter : module.named_parameters()) {
    if (parameter.value().requires_grad()) watch(parameter.key(), parameter.value());
  }
}

void NanWatch::watch(const std::string& name, const torch::Tensor& parameter) {
  parameter.register_hook([watch = weak_from_this(), name](const torch::Tensor& gradient) {
    if (const auto alive = watch.lock()) alive->arrive(name, gradient);
  });
}

void NanWatch::arrive(const std::string& name, const torch::Tensor& gradient) {
  if (!gradient.defined() || gradient.numel() == 0) return;
  const torch::NoGradGuard no_grad;
  const torch::Tensor values = values_of(gradient);
  if (values.numel() == 0) return;
  const std::lock_guard lock(mutex_);
  auto arrived = arrived_.lock();
  if (arrived == nullptr) {
    arrived_ = arrived = std::make_shared<std::vector<Arrived>>();
    torch::autograd::Engine::get_default_engine().queue_callback([watch = weak_from_this(), arrived] {
      if (const auto alive = watch.lock()) alive->finish(*arrived);
    });
  }
  arrived->push_back({name, values, extremes_of(values)});
}

void NanWatch::finish(const std::vector<Arrived>& arrived) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> extremes;
  for (const Arrived& one : arrived) extremes.push_back(one.extremes.to(arrived.front().extremes.device()));
  const torch::Tensor finite = torch::stack(extremes).isfinite().cpu();
  for (size_t i = 0; i < arrived.size(); ++i) {
    if (finite[static_cast<int64_t>(i)].item<bool>()) continue;
    // Backward goes from the loss to the input: the first that it meets is the nearest to the loss.
    tell("the gradient of " + arrived[i].name + " is not finite (" + describe_values(arrived[i].gradient) +
         "); backward came to " + std::to_string(i) + " of " + std::to_string(arrived.size()) + " gradients before it" +
         (i == 0 ? ", so that the loss is most likely not finite either" : ", which are finite"));
    return;
  }
}

void NanWatch::check(const Metrics& metrics) {
  for (const auto& [name, value] : metrics.json().items()) {
    if (!value.is_number_float() || std::isfinite(value.get<double>())) continue;
    return tell("the metric " + name + " is " + (std::isnan(value.get<double>()) ? "NaN" : "infinite"));
  }
}

void NanWatch::tell(const std::string& what) {
  const int64_t step = options_.step ? options_.step() : 0;
  const std::string text =
      "rank " + std::to_string(options_.rank) + (step > 0 ? ", step " + std::to_string(step) : "") + ": " + what;
  if (options_.stop) throw NonFiniteError(text + " (DebugConfig.nan_watch)");
  const std::lock_guard lock(mutex_);
  if (++told_ > kMostLines) return;
  options_.say("paceline: " + text + (told_ == kMostLines ? "; no more of these lines follow" : ""));
}

}  // namespace paceline::train
