#include "paceline/amp/clip.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "paceline/core/error.h"
#include "paceline/parallel/parallel_model.h"

namespace paceline {

using parallel::ParallelModel;
using torch::Tensor;

namespace {

// The gradients of the parameters that one parallel model trains; null for those that none does.
struct ModelGradients {
  ParallelModel* model = nullptr;
  std::vector<Tensor> gradients;
};

// In the order of the parameters, which is the same on all ranks.
std::vector<ModelGradients> by_model(const std::vector<Tensor>& parameters) {
  std::vector<ModelGradients> parts;
  for (const Tensor& parameter : parameters) {
    ParallelModel* const model = ParallelModel::of(parameter);
    auto part = std::ranges::find(parts, model, &ModelGradients::model);
    if (part == parts.end()) part = parts.insert(parts.end(), {.model = model, .gradients = {}});
    if (parameter.grad().defined()) part->gradients.push_back(parameter.grad().detach());
  }
  return parts;
}

// What a gradient is as a vector. A sparse one may name an element several times, which counts once as their sum.
Tensor values_of(const Tensor& gradient) {
  return gradient.is_sparse() ? gradient.coalesce().values() : gradient;
}

// All on the first's device, in a type that holds each of them.
Tensor norm_of_norms(const std::vector<Tensor>& norms, double norm_type) {
  torch::ScalarType type = torch::kFloat;
  for (const Tensor& norm : norms) type = torch::promote_types(type, norm.scalar_type());
  std::vector<Tensor> alike;
  for (const Tensor& norm : norms) alike.push_back(norm.to(norms.front().device(), type));
  return at::linalg_vector_norm(at::stack(alike), norm_type);
}

Tensor norm_of(const std::vector<Tensor>& gradients, double norm_type) {
  std::map<torch::ScalarType, std::vector<Tensor>> by_type;
  for (const Tensor& gradient : gradients) {
    if (const Tensor values = values_of(gradient); values.numel() > 0) by_type[values.scalar_type()].push_back(values);
  }
  std::vector<Tensor> norms;
  for (const auto& [type, tensors] : by_type) {
    // The squares of float16 overflow at 256, and in bfloat16 a sum stops growing after some hundred elements.
    const auto in = at::isReducedFloatingType(type) ? std::optional(torch::kFloat) : std::nullopt;
    for (Tensor& norm : at::_foreach_norm(tensors, norm_type, in)) norms.push_back(std::move(norm));
  }
  return norms.empty() ? torch::zeros({}) : norm_of_norms(norms, norm_type);
}

}  // namespace

Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm, double norm_type,
                      bool error_if_nonfinite) {
  if (!(max_norm >= 0)) {
    throw ConfigError("clip_grad_norm: max_norm is " + std::to_string(max_norm) + "; allowed: at least 0");
  }
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> gradients;
  std::vector<Tensor> norms;
  for (const ModelGradients& part : by_model(parameters)) {
    Tensor norm = norm_of(part.gradients, norm_type);
    if (part.model != nullptr) norm = part.model->norm_over_ranks(norm, norm_type);
    norms.push_back(std::move(norm));
    for (const Tensor& gradient : part.gradients) {
      gradients.push_back(gradient.is_sparse() ? gradient._values() : gradient);
    }
  }
  if (norms.empty()) return torch::zeros({});
  const Tensor total = norms.size() == 1 ? norms.front() : norm_of_norms(norms, norm_type);
  if (error_if_nonfinite && !std::isfinite(total.item<double>())) {
    throw Error("the norm of the gradients is " + std::to_string(total.item<double>()) +
                ", so they cannot be clipped; lower the learning rate, or leave error_if_nonfinite off to go on");
  }
  if (!gradients.empty()) at::_foreach_mul_(gradients, (max_norm / (total + 1e-6)).clamp_max(1.0));
  return total;
}

}  // namespace paceline
