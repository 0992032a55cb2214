// What the tests that need a GPU have in common: each is skipped, with the reason, where LibTorch sees none.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <paceline/paceline.h>

#include <string>

#include "paceline/comm/group.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::testing {

/// Why nothing can be run on a GPU; "" when it can.
inline std::string missing_gpu() {
  if (torch::cuda::is_available()) return "";
  if (!comm::backend_is_available("nccl")) return "no CUDA device: this LibTorch was built without CUDA";
  return "no CUDA device: LibTorch sees none; `nvidia-smi -L` and CUDA_VISIBLE_DEVICES tell which there are";
}

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = missing_gpu(); !reason.empty()) GTEST_SKIP() << reason;
  }

  /// Options of a run in a folder of the test's own, with `workers` that share the first GPU.
  TorchTrainerOptions options(int64_t workers, Config config = {}) const {
    TorchTrainerOptions options;
    options.train_loop_config = std::move(config);
    options.scaling_config = {.num_workers = workers, .use_gpu = true};
    if (workers > 1) options.scaling_config.resources_per_worker = {{"GPU", 1.0 / static_cast<double>(workers)}};
    options.run_config.storage_path = storage_.path();
    options.run_config.log_level = "ERROR";
    return options;
  }

  TemporaryFolder storage_;
};

}  // namespace paceline::testing
