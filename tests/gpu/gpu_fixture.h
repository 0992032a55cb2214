// What the tests that need a GPU have in common. Each is skipped, with the reason, where there is none.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <paceline/paceline.h>

#include <string>

#include "paceline/testing/missing_gpu.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::testing {

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

  const torch::Device device_{torch::kCUDA, 0};
  TemporaryFolder storage_;
};

}  // namespace paceline::testing
