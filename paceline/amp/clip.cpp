#include "paceline/amp/clip.h"

#include <algorithm>
#include <cmath>

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

Tensor norm_of(const std::vector<Tensor>& gradients, double norm_type) {
  if (gradients.empty()) return torch::zeros({});
  std::vector<Tensor> norms = at::_foreach_norm(gradients, norm_type);
  for (Tensor& norm : norms) norm = norm.to(norms.front().options());
  return at::linalg_vector_norm(at::stack(norms), norm_type);
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
    norms.push_back(norms.empty() ? norm : norm.to(norms.front().options()));
    gradients.insert(gradients.end(), part.gradients.begin(), part.gradients.end());
  }
  if (norms.empty()) return torch::zeros({});
  const Tensor total = norms.size() == 1 ? norms.front() : at::linalg_vector_norm(at::stack(norms), norm_type);
  if (error_if_nonfinite && !std::isfinite(total.item<double>())) {
    throw Error("the norm of the gradients is " + std::to_string(total.item<double>()) +
                ", so they cannot be clipped; lower the learning rate, or leave error_if_nonfinite off to go on");
  }
  if (!gradients.empty()) at::_foreach_mul_(gradients, (max_norm / (total + 1e-6)).clamp_max(1.0));
  return total;
}

}  // namespace paceline
