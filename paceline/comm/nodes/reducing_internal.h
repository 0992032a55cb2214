// How a tensor is reduced over several nodes: within them, and between them, where Gloo knows fewer types and no mean.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "paceline/comm/shared_call_internal.h"

namespace paceline::comm {

struct Reducing {
  at::Tensor numbers;  ///< in the place of the tensor, in one dimension; kept by the call
  std::shared_ptr<const c10d::ReduceOp> within, between;
  bool is_mean = false;  ///< the sum is divided afterwards
};

/// `operation`: for errors. c10::ValueError where `op` is not defined for the tensor's type. The call puts the results
/// where they belong.
Reducing reducing_of(const char* operation, const at::Tensor& tensor, const c10d::ReduceOp& op, SharedCall& call);

}  // namespace paceline::comm
