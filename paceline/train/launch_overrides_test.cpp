#include <gtest/gtest.h>

#include "paceline/train/launch_overrides_internal.h"

namespace paceline::train {
namespace {

TEST(LaunchOverrides, TakeThePlaceOfWhatTheProgramSays) {
  ScalingConfig scaling{.num_workers = 2, .use_gpu = true};
  RunConfig run{.name = "own", .storage_path = "/own", .failure_config = {.max_failures = 1, .stop_grace_s = 7}};
  const auto given =
      Json{{"num_workers", 5}, {"name", "other"}, {"max_failures", 3}, {"engine", "ray"}}.get<LaunchOverrides>();
  override_with(given, scaling, run);
  EXPECT_EQ(scaling, (ScalingConfig{.num_workers = 5, .use_gpu = true, .engine = "ray"}));
  EXPECT_EQ(run.name, "other");
  EXPECT_EQ(run.storage_path, "/own");
  EXPECT_EQ(run.failure_config, (FailureConfig{.max_failures = 3, .stop_grace_s = 7}));
  const RunConfig before = run;
  override_with({}, scaling, run);
  EXPECT_EQ(run, before);
}

}  // namespace
}  // namespace paceline::train
