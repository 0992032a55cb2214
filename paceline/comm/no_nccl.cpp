#include "paceline/comm/backend_internal.h"

namespace paceline::comm {

Backend nccl_backend() {
  return {.name = "nccl", .devices = {c10::kCUDA}, .shares_devices = false, .missing = "a CUDA build of LibTorch"};
}

}  // namespace paceline::comm
