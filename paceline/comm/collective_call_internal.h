// What the collective ledger is told of a call with tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "paceline/core/collective_ledger.h"

namespace paceline::comm {

/// none for types of LibTorch's that collectives over shared memory take as bytes, such as quantised ones.
ElementType type_of(const at::Tensor& tensor);

/// Of `tensors`, whose bytes count if they are dense. `parts`: how often the whole is what this rank has of it.
CollectiveCall call_of(Collective collective, const std::vector<at::Tensor>& tensors, int parts = 1);

}  // namespace paceline::comm
