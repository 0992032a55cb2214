#include "paceline/parallel/ddp/gradient_strides.h"

namespace paceline::parallel {

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

}  // namespace paceline::parallel
