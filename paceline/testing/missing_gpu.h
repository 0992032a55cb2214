// For tests that need a GPU: each is skipped, with the reason, where LibTorch sees none.
#pragma once

#include <torch/torch.h>

#include <string>

#include "paceline/comm/group.h"

namespace paceline::testing {

/// Why nothing can be run on a GPU; "" when it can.
inline std::string missing_gpu() {
  if (torch::cuda::is_available()) return "";
  if (!comm::backend_is_available("nccl")) return "no CUDA device: this LibTorch was built without CUDA";
  return "no CUDA device: LibTorch sees none; `nvidia-smi -L` and CUDA_VISIBLE_DEVICES tell which there are";
}

}  // namespace paceline::testing
