#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>

#include <optional>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "paceline/comm/shared_call_internal.h"

namespace paceline::comm {

using collective::Element;
using collective::Kind;
using collective::Reduction;
using collective::Request;

namespace {

std::optional<Element> element_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return Element::float32;
    case at::kDouble:
      return Element::float64;
    case at::kHalf:
      return Element::float16;
    case at::kBFloat16:
      return Element::bfloat16;
    case at::kChar:
      return Element::int8;
    case at::kByte:
      return Element::uint8;
    case at::kShort:
      return Element::int16;
    case at::kInt:
      return Element::int32;
    case at::kLong:
      return Element::int64;
    case at::kBool:
      return Element::boolean;
    case at::kComplexFloat:
      return Element::complex64;
    case at::kComplexDouble:
      return Element::complex128;
    default:
      return std::nullopt;
  }
}

Reduction reduction_of(const c10d::ReduceOp& op) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::AVG:
      return Reduction::mean;
    case c10d::ReduceOp::PRODUCT:
      return Reduction::product;
    case c10d::ReduceOp::MIN:
      return Reduction::min;
    case c10d::ReduceOp::MAX:
      return Reduction::max;
    case c10d::ReduceOp::BAND:
      return Reduction::bitwise_and;
    case c10d::ReduceOp::BOR:
      return Reduction::bitwise_or;
    case c10d::ReduceOp::BXOR:
      return Reduction::bitwise_xor;
    default:
      return Reduction::sum;
  }
}

double factor_of(const c10d::ReduceOp& op) {
  if (op.op_ != c10d::ReduceOp::PREMUL_SUM) return 1;
  const auto* const factor = dynamic_cast<const c10d::PreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK_VALUE(factor != nullptr, "PREMUL_SUM has no factor");
  return factor->tensor_factor.defined() ? factor->tensor_factor.item<double>() : factor->double_factor;
}

}  // namespace

void check_tensor(const char* operation, const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.device().is_cpu() && tensor.layout() == at::kStrided, operation,
                    " over shared memory takes dense tensors of the CPU; got ", tensor.toString(), " on ",
                    tensor.device().str());
}

Request request_of(Kind kind, const at::Tensor& tensor, std::chrono::milliseconds timeout) {
  const std::optional<Element> element = element_of(tensor.scalar_type());
  return {.kind = kind,
          .what = {.element = element.value_or(Element::uint8)},
          .elements = static_cast<uint64_t>(element ? tensor.numel() : tensor.nbytes()),
          .timeout = timeout};
}

Request reducing_request_of(const char* operation, Kind kind, const at::Tensor& tensor, const c10d::ReduceOp& op,
                            std::chrono::milliseconds timeout) {
  Request request = request_of(kind, tensor, timeout);
  request.what.reduction = reduction_of(op);
  request.what.factor = factor_of(op);
  TORCH_CHECK_VALUE(element_of(tensor.scalar_type()) && has(request.what.element, request.what.reduction), operation,
                    " cannot take the ", to_string(request.what.reduction), " of ", tensor.scalar_type(), " tensors");
  return request;
}

at::Tensor SharedCall::given(const at::Tensor& tensor) {
  return kept_.emplace_back(tensor.detach().contiguous());
}

at::Tensor SharedCall::filled(at::Tensor& tensor) {
  if (tensor.is_contiguous()) return kept_.emplace_back(tensor.detach());
  copies_.emplace_back(tensor.detach(), at::empty_like(tensor, at::MemoryFormat::Contiguous));
  return copies_.back().second;
}

at::Tensor SharedCall::updated(at::Tensor& tensor, bool is_result) {
  if (tensor.is_contiguous()) return kept_.emplace_back(tensor.detach());
  at::Tensor values = tensor.detach().contiguous();
  if (is_result) copies_.emplace_back(tensor.detach(), values);
  return kept_.emplace_back(std::move(values));
}

at::Tensor SharedCall::joined(const std::vector<at::Tensor>& parts) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& part : parts) flat.push_back(part.detach().reshape({-1}));
  return kept_.emplace_back(at::cat(flat));
}

void SharedCall::copy_back() {
  const at::NoGradGuard no_grad;
  for (auto& [to, from] : copies_) to.copy_(from);
}

}  // namespace paceline::comm
