#include "paceline/core/error.h"
#include "python/bindings/nccl.h"

namespace paceline::python {

void bind_watched_nccl() {}

pybind11::object make_nccl(const c10::intrusive_ptr<c10d::Store>& /*store*/,
                           const c10::intrusive_ptr<c10d::Backend::Options>& /*nccl*/,
                           const comm::BackendOptions& /*options*/) {
  throw ConfigError("groups over NCCL need a CUDA build of LibTorch");
}

}  // namespace paceline::python
