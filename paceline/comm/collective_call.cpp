#include "paceline/comm/collective_call_internal.h"

namespace paceline::comm {

ElementType type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return ElementType::float32;
    case at::kDouble:
      return ElementType::float64;
    case at::kHalf:
      return ElementType::float16;
    case at::kBFloat16:
      return ElementType::bfloat16;
    case at::kChar:
      return ElementType::int8;
    case at::kByte:
      return ElementType::uint8;
    case at::kShort:
      return ElementType::int16;
    case at::kInt:
      return ElementType::int32;
    case at::kLong:
      return ElementType::int64;
    case at::kBool:
      return ElementType::boolean;
    case at::kComplexFloat:
      return ElementType::complex64;
    case at::kComplexDouble:
      return ElementType::complex128;
    default:
      return ElementType::none;
  }
}

CollectiveCall call_of(Collective collective, const std::vector<at::Tensor>& tensors, int parts) {
  CollectiveCall call{.collective = collective};
  if (!tensors.empty()) call.type = type_of(tensors.front());
  for (const at::Tensor& tensor : tensors) {
    if (tensor.layout() == at::kStrided) call.bytes += static_cast<int64_t>(tensor.nbytes()) * parts;
  }
  return call;
}

}  // namespace paceline::comm
