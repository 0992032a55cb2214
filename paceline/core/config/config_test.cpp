#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "paceline/core/config/read.h"
#include "paceline/core/config/run_config.h"
#include "paceline/core/config/scaling_config.h"
#include "paceline/core/error.h"

namespace paceline {
namespace {

template <class C>
std::string refusal(const C& config) {
  try {
    config.validate();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Configs, DefaultsAreValid) {
  EXPECT_EQ(refusal(ScalingConfig{}), "accepted");
  EXPECT_EQ(refusal(RunConfig{}), "accepted");
  EXPECT_EQ(refusal(FailureConfig{}), "accepted");
  EXPECT_EQ(refusal(CheckpointConfig{}), "accepted");
}

TEST(Configs, ARefusalNamesFieldValueAndWhatIsAllowed) {
  EXPECT_EQ(refusal(FailureConfig{.max_failures = -2}), "FailureConfig.max_failures is -2; allowed: at least -1");
  EXPECT_EQ(refusal(CheckpointConfig{.num_to_keep = 0}), "CheckpointConfig.num_to_keep is 0; allowed: at least 1");
  EXPECT_EQ(refusal(CheckpointConfig{.checkpoint_score_order = "up"}),
            R"(CheckpointConfig.checkpoint_score_order is "up"; allowed: one of "max", "min")");
  EXPECT_EQ(refusal(RunConfig{.name = "a/b"}), "accepted");
  for (const char* name : {"", "/a", "a/", "a//b", "..", "a/../b", "."}) {
    EXPECT_EQ(refusal(RunConfig{.name = name}),
              std::string("RunConfig.name is \"") + name +
                  R"("; allowed: a name, or names joined by '/', none of them empty, "." or "..")");
  }
  EXPECT_EQ(refusal(TrackerConfig{.kind = "csv"}), "accepted");
  EXPECT_EQ(refusal(TrackerConfig{.kind = "table"}).find(R"(TrackerConfig.kind is "table"; allowed: one of )"), 0U);
}

TEST(Configs, WorkersAreACountOrARange) {
  EXPECT_EQ(refusal(ScalingConfig{.num_workers = 0}), "accepted");
  EXPECT_EQ(refusal(ScalingConfig{.num_workers = {2, 4}}), "accepted");
  EXPECT_NE(refusal(ScalingConfig{.num_workers = -1}), "accepted");
  EXPECT_NE(refusal(ScalingConfig{.num_workers = {4, 2}}), "accepted");
  const ScalingConfig elastic{.num_workers = {2, 4}};
  EXPECT_EQ(Json(elastic).get<ScalingConfig>().num_workers, NumWorkers(2, 4));
}

TEST(Configs, ResourcesAreCpusAndGpus) {
  EXPECT_EQ(refusal(ScalingConfig{.resources_per_worker = {{"CPU", 2}, {"GPU", 0.5}}}), "accepted");
  EXPECT_EQ(refusal(ScalingConfig{.resources_per_worker = {{"CPU", -1}}}),
            R"(ScalingConfig.resources_per_worker is {"CPU":-1.0}; allowed: )"
            R"("CPU", "GPU", "memory" in bytes and others by name, each at least 0)");
  for (const char* misspelt : {"cpus", "Gpu", ""}) {
    EXPECT_NE(refusal(ScalingConfig{.resources_per_worker = {{misspelt, 8}}}), "accepted") << misspelt;
  }
  EXPECT_EQ(refusal(ScalingConfig{.resources_per_worker = {{"memory", 1e9}, {"licence", 1}}}), "accepted");
}

TEST(Configs, GpusAreGivenOutWholeOrShared) {
  const auto asked = [](double gpus) {
    return gpus_per_worker({.use_gpu = true, .resources_per_worker = {{"GPU", gpus}}});
  };
  EXPECT_EQ(gpus_per_worker({.use_gpu = true}), 1);
  EXPECT_EQ(gpus_per_worker({.resources_per_worker = {{"CPU", 2}}}), 0);
  EXPECT_EQ(asked(0.5), 0.5);
  EXPECT_EQ(asked(1.5), 2) << "no worker has a whole GPU and a part";
  struct Case {
    double each;
    int64_t on_two_gpus, gpus_for_four, first_gpu_of_rank_3;
    std::string text;
  };
  for (const Case& one : {Case{2, 1, 8, 6, "2 GPUs"}, Case{1, 2, 4, 3, "1 GPU"}, Case{0.6, 2, 4, 3, "0.6 GPU"},
                          Case{0.5, 4, 2, 1, "0.5 GPU"}, Case{0.333333, 6, 2, 1, "0.333333 GPU"},
                          Case{0.25, 8, 1, 0, "0.25 GPU"}, Case{0.1, 20, 1, 0, "0.1 GPU"}}) {
    SCOPED_TRACE(one.text);
    EXPECT_EQ(workers_that_fit(2, one.each), one.on_two_gpus);
    EXPECT_EQ(gpus_for(4, one.each), one.gpus_for_four);
    EXPECT_EQ(first_gpu(3, one.each), one.first_gpu_of_rank_3);
    EXPECT_EQ(gpus_text(one.each), one.text);
  }
}

TEST(Configs, BothEndsOfARangeAreExcluded) {
  const Constraint range = between(0, 1e9);
  EXPECT_EQ(range.words, "more than 0 and less than 1000000000");
  EXPECT_TRUE(range.allows(0.5));
  for (const double value : {0.0, 1e9, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_FALSE(range.allows(value)) << value;
  }
}

TEST(Configs, BothEndsOfFromToAreAllowed) {
  const Constraint range = from_to(0, 1e9);
  EXPECT_EQ(range.words, "0 to 1000000000");
  for (const double value : {0.0, 1e9}) EXPECT_TRUE(range.allows(value)) << value;
  for (const double value : {-1e-9, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_FALSE(range.allows(value)) << value;
  }
}

TEST(Configs, FieldsCarryHelpAndDefaults) {
  const auto fields = CheckpointConfig::fields();
  ASSERT_EQ(fields.size(), 3u);
  EXPECT_EQ(fields[2].name, "checkpoint_score_order");
  EXPECT_EQ(fields[2].default_value, "max");
  EXPECT_FALSE(fields[2].help.empty());
}

TEST(Configs, TpusAndGpusThatNobodyUsesAreRefused) {
  EXPECT_NO_THROW(refuse_impossible({.use_gpu = true, .resources_per_worker = {{"GPU", 1}}}));
  EXPECT_THROW(refuse_impossible({.resources_per_worker = {{"GPU", 1}}}), ConfigError);
  EXPECT_THROW(refuse_impossible({.use_tpu = true}), ConfigError);
  EXPECT_THROW(refuse_impossible({.use_gpu = true, .use_tpu = true}), ConfigError);
  EXPECT_THROW(refuse_impossible({.topology = "2x2"}), ConfigError);
}

TEST(Configs, HostsAreForTheEngineOfThatName) {
  for (const char* engine : {"auto", "hosts"}) EXPECT_NO_THROW(refuse_impossible({.engine = engine, .hosts = {"a"}}));
  for (const char* engine : {"local", "agents", "local_and_agents", "slurm", "ray"}) {
    EXPECT_NO_THROW(refuse_impossible({.engine = engine}));
    EXPECT_THROW(refuse_impossible({.engine = engine, .hosts = {"a"}}), ConfigError) << engine;
  }
}

template <class C>
std::string refusal_of_json(const Json& values) {
  try {
    read_config<C>(values, "C");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ReadConfig, LeavesWhatIsAbsentOrNullAtItsDefault) {
  const auto read = read_config<FailureConfig>({{"max_failures", 3.0}, {"stop_grace_s", nullptr}}, "FailureConfig");
  EXPECT_EQ(read, FailureConfig{.max_failures = 3});
}

TEST(ReadConfig, RefusesWhatNlohmannWouldConvert) {
  EXPECT_EQ(refusal_of_json<FailureConfig>({{"max_failures", 2.5}}),
            "C.max_failures is 2.5; allowed: an integer, at least -1");
  EXPECT_EQ(refusal_of_json<CheckpointConfig>({{"num_to_keep", true}}),
            "C.num_to_keep is true; allowed: an integer, at least 1");
  EXPECT_EQ(refusal_of_json<FailureConfig>({{"stop_grace_s", "5"}}),
            "C.stop_grace_s is \"5\"; allowed: a number, 0 to 1000000000");
  EXPECT_EQ(refusal_of_json<ScalingConfig>({{"use_gpu", 1}}), "C.use_gpu is 1; allowed: true or false");
  EXPECT_EQ(refusal_of_json<RunConfig>({{"storage_path", 1}}), "C.storage_path is 1; allowed: a string");
  EXPECT_EQ(refusal_of_json<RunConfig>({{"failure_config", 1}}), "C.failure_config is 1; allowed: a configuration");
  EXPECT_EQ(refusal_of_json<RunConfig>({{"trackers", 1}}), "C.trackers is 1; allowed: a list");
  EXPECT_EQ(refusal_of_json<TrackerConfig>({{"kind", "csv"}, {"tags", 1}}), "C.tags is 1; allowed: names with strings");
  EXPECT_EQ(refusal_of_json<TrackerConfig>({{"kind", "csv"}, {"tags", {{"seed", 1}}}}),
            R"(C.tags is {"seed":1}; allowed: names with strings)");
  for (const Json& workers : std::vector<Json>{2.5, true, "2", {1, 2, 3}, Json::array({1}), {1, "2"}}) {
    EXPECT_EQ(refusal_of_json<ScalingConfig>({{"num_workers", workers}}),
              "C.num_workers is " + workers.dump() + "; allowed: " + worker_count().words);
  }
}

TEST(ReadConfig, RefusesWhatHasNoJsonFormWithTheFieldsWords) {
  const auto refused = [](const std::string& field) -> std::string {
    try {
      refuse_value<RunConfig>("RunConfig", field, "<an hour>");
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refused("max_time"), "RunConfig.max_time is <an hour>; allowed: a number, more than 0");
  EXPECT_EQ(refused("quiet"), "RunConfig.quiet is <an hour>; allowed: true or false");
  EXPECT_EQ(refused("no_such_field"), "accepted");
}

TEST(Configs, RoundTripThroughJson) {
  const RunConfig config{.name = "mnist", .failure_config = {.max_failures = 3}};
  const auto read = Json(config).get<RunConfig>();
  EXPECT_EQ(read.name, "mnist");
  EXPECT_EQ(read.failure_config.max_failures, 3);
}

}  // namespace
}  // namespace paceline
