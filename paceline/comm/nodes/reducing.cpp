#include <ATen/ops/view_as_real.h>

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <utility>

#include "paceline/comm/nodes/reducing_internal.h"

namespace paceline::comm {

Reducing reducing_of(const char* operation, const at::Tensor& tensor, const c10d::ReduceOp& op, SharedCall& call) {
  (void)reducing_request_of(operation, collective::Kind::all_reduce, tensor, op, {});  // refuses what is not defined
  const auto type = static_cast<c10d::ReduceOp::RedOpType>(op);
  const bool is_mean = type == c10d::ReduceOp::AVG;
  const at::Tensor values = call.given(tensor);
  at::Tensor numbers = values;
  c10d::ReduceOp within = op, between = op;
  if (is_mean) within = between = c10d::ReduceOp::SUM;
  if (type == c10d::ReduceOp::PREMUL_SUM) between = c10d::ReduceOp::SUM;
  const bool is_integral = at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false);
  if (tensor.scalar_type() == at::kBool) {
    numbers = values.to(at::kByte);
    if (type != c10d::ReduceOp::BXOR) {
      const bool any = type == c10d::ReduceOp::SUM || type == c10d::ReduceOp::MAX || type == c10d::ReduceOp::BOR;
      within = between = any ? c10d::ReduceOp::MAX : c10d::ReduceOp::MIN;
    }
  } else if (is_mean && is_integral) {
    numbers = values.to(at::kLong);  // the sum may leave the type's range, as that of half can
  } else if (tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16) {
    numbers = values.to(at::kFloat);  // as within a node: rounded once
  } else if (tensor.scalar_type() == at::kShort) {
    numbers = values.to(at::kInt);
  } else if (tensor.is_complex()) {
    TORCH_CHECK_VALUE(type != c10d::ReduceOp::PRODUCT, operation, " between machines cannot take the product of ",
                      tensor.scalar_type(), " tensors");
    numbers = at::view_as_real(values);
  }
  if (!numbers.is_alias_of(tensor)) call.results(tensor.detach(), tensor.is_complex() ? values : numbers);
  call.keep(numbers);
  return {.numbers = numbers.view({-1}),
          .within = std::make_shared<const c10d::ReduceOp>(std::move(within)),
          .between = std::make_shared<const c10d::ReduceOp>(std::move(between)),
          .is_mean = is_mean};
}

}  // namespace paceline::comm
