#include "paceline/amp/clip.h"

#include <cmath>

#include "paceline/core/error.h"

namespace paceline {

using torch::Tensor;

Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm, double norm_type,
                      bool error_if_nonfinite) {
  if (!(max_norm >= 0)) {
    throw ConfigError("clip_grad_norm: max_norm is " + std::to_string(max_norm) + "; allowed: at least 0");
  }
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad().detach());
  }
  if (gradients.empty()) return torch::zeros({});

  std::vector<Tensor> norms = at::_foreach_norm(gradients, norm_type);
  for (Tensor& norm : norms) norm = norm.to(norms.front().options());
  const Tensor total = at::linalg_vector_norm(at::stack(norms), norm_type);
  if (error_if_nonfinite && !std::isfinite(total.item<double>())) {
    throw Error("the norm of the gradients is " + std::to_string(total.item<double>()) +
                ", so they cannot be clipped; lower the learning rate, or leave error_if_nonfinite off to go on");
  }
  at::_foreach_mul_(gradients, (max_norm / (total + 1e-6)).clamp_max(1.0));
  return total;
}

}  // namespace paceline
