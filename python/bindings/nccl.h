// torch.distributed's groups over NCCL, watched. Builds without CUDA have none.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <pybind11/pybind11.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "paceline/comm/torch_distributed.h"

namespace paceline::python {

/// The class of what make_nccl() gives, derived from torch's own: wherever torch hands such a group out, it is one.
void bind_watched_nccl();

/// `nccl`: a ProcessGroupNCCL.Options. Collective. With the GIL, which it gives away meanwhile.
pybind11::object make_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                           const c10::intrusive_ptr<c10d::Backend::Options>& nccl, const comm::BackendOptions& options);

}  // namespace paceline::python
