#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "paceline/comm/backend_internal.h"
#include "paceline/core/error.h"

namespace paceline::comm {

Backend make_nccl(const c10::intrusive_ptr<c10d::Store>&, const BackendSettings&) {
  throw CollectiveError(
      "the backend \"nccl\" is not in this build: it needs a CUDA build of LibTorch; wanted=nccl available=gloo");
}

bool nccl_is_available() {
  return false;
}

}  // namespace paceline::comm
