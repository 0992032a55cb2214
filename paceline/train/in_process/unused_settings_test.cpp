#include "paceline/train/in_process/unused_settings_internal.h"

#include <gtest/gtest.h>

#include <set>

#include "paceline/train/torch_config.h"

namespace paceline::train {
namespace {

using Names = std::set<std::string>;

// A new field stands here when a loop in the calling process has its effect (or fit() refuses it there), otherwise in
// the table.
TEST(UnusedInProcess, EveryFieldIsUsedOrInTheTable) {
  const struct {
    std::string config;
    std::vector<FieldInfo> fields;
    Names used;
  } configs[] = {
      {"ScalingConfig",
       ScalingConfig::fields(),
       {"num_workers", "use_gpu", "resources_per_worker", "threads_per_worker", "use_tpu", "topology",
        "agent_command" /* says where a program is; that asks for nothing */}},
      {"FailureConfig", FailureConfig::fields(), {}},
      {"DebugConfig", DebugConfig::fields(), {"debug_rank", "nan_watch", "check_collectives", "check_ranks_every"}},
      {"CheckpointConfig",
       CheckpointConfig::fields(),
       {"num_to_keep", "checkpoint_score_attribute", "checkpoint_score_order"}},
      {"RunConfig",
       RunConfig::fields(),
       {"name", "storage_path", "failure_config", "debug_config", "checkpoint_config", "callbacks",
        "worker_environment", "max_time", "trackers", "dashboard", "quiet", "log_level"}},
      {"TorchConfig", TorchConfig::fields(), {"backend", "timeout_s"}},
      {"ValidationTaskConfig", ValidationTaskConfig::fields(), {"config"}},
  };
  for (const auto& [config, fields, used] : configs) {
    Names all, classified = used;
    for (const FieldInfo& field : fields) all.insert(field.name);
    for (const UnusedSetting& setting : settings_unused_in_process()) {
      if (setting.config != config) continue;
      EXPECT_TRUE(classified.insert(setting.field).second) << config << "." << setting.field << " is in both";
    }
    EXPECT_EQ(classified, all) << config;
  }
}

TEST(UnusedInProcess, NothingIsSaidOfDefaults) {
  EXPECT_EQ(unused_in_process({}), "");
}

TEST(UnusedInProcess, NamesWhatWasSetAndWhy) {
  controller::RunRequest request;
  request.run_config.failure_config.max_failures = 3;
  request.run_config.failure_config.controller_failure_limit = 1;
  request.run_config.log_quota_mb = 1;
  request.run_config.worker_environment = {{"MINE", "1"}, {"OMP_NUM_THREADS", "1"}};
  request.max_validations = 2;
  request.validation_task.timeout_s = 5;
  EXPECT_EQ(unused_in_process(request),
            "in the calling process (num_workers = 0) this has no effect: FailureConfig.max_failures, "
            "FailureConfig.controller_failure_limit (nothing is tried again); RunConfig.log_quota_mb (there are no "
            "worker logs); ValidationConfig.max_in_flight, ValidationTaskConfig.timeout_s (report() runs each "
            "validation to its end); OMP_NUM_THREADS of the workers' environment (libraries that are loaded do not "
            "read it again)");
}

}  // namespace
}  // namespace paceline::train
