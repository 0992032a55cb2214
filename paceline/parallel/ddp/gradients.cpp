#include "paceline/parallel/ddp/gradients.h"

namespace paceline::parallel {
namespace {

torch::Tensor& gradient_of(const NamedTensor& parameter) {
  return torch::Tensor(parameter.tensor).mutable_grad();
}

}  // namespace

torch::Tensor with_strides_of(const torch::Tensor& parameter, const torch::Tensor& gradient) {
  if (!gradient.defined() || gradient.layout() != torch::kStrided || gradient.sizes() != parameter.sizes() ||
      gradient.strides() == parameter.strides()) {
    return gradient;
  }
  for (int64_t i = 0; i < gradient.dim(); ++i) {
    if (gradient.size(i) != 1 && gradient.stride(i) != parameter.stride(i)) return gradient;
  }
  return gradient.as_strided(parameter.sizes(), parameter.strides());
}

void scale_gradients(const std::vector<NamedTensor>& parameters, double factor) {
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : parameters) {
    if (torch::Tensor& gradient = gradient_of(parameter); gradient.defined()) gradient.mul_(factor);
  }
}

void unview_gradients(const std::vector<NamedTensor>& parameters) {
  for (const auto& parameter : parameters) {
    torch::Tensor& gradient = gradient_of(parameter);
    if (!gradient.defined() || !gradient.is_view()) continue;
    torch::Tensor alias = torch::empty({0}, gradient.options());
    alias.set_(gradient.storage(), gradient.storage_offset(), gradient.sizes(), gradient.strides());
    gradient = alias;
  }
}

void leave_buckets(const std::vector<NamedTensor>& parameters) {
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : parameters) {
    if (torch::Tensor& gradient = gradient_of(parameter); gradient.defined()) gradient = gradient.clone();
  }
}

void drop_gradients(const std::vector<NamedTensor>& parameters) {
  for (const auto& parameter : parameters) gradient_of(parameter).reset();
}

}  // namespace paceline::parallel
