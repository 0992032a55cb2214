// For tests that need a GPU: each is skipped, with the reason, where LibTorch sees none.
#pragma once

#include <torch/torch.h>

#include <string>

#include "paceline/comm/backend.h"

namespace paceline::testing {

/// Why nothing can be run on a GPU; "" when it can.
inline std::string missing_gpu() {
  if (torch::cuda::is_available()) return "";
  if (!comm::find_backend("nccl")->is_built_in()) return "no CUDA device: this LibTorch was built without CUDA";
  return "no CUDA device: LibTorch sees none; `nvidia-smi -L` and CUDA_VISIBLE_DEVICES tell which there are";
}

}  // namespace paceline::testing
