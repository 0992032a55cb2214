// Datasets of a trainer, in the calling process. tests/robustness/ has them in workers.
#include "paceline/train/data/dataset_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "paceline/data/dataset/read_api.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/train/checkpoint_state.h"
#include "paceline/train/data/data_iterator.h"
#include "paceline/train/session.h"
#include "paceline/train/trainer.h"

namespace paceline {
namespace {

using ::testing::HasSubstr;

// Two epochs, a report for each batch; fails behind the batch of that number.
Json read_datasets(const Config& config) {
  auto shard = get_dataset_shard("train");
  torch::nn::Linear model(1, 1);
  Json seen = Json::array();
  while (shard.epoch() < 2) {
    const int64_t epoch = shard.epoch();
    for (auto& batch : shard.iter_batches({.batch_size = 2})) {
      seen.push_back({epoch, batch.at("id")[0].item<int64_t>()});
      report({{"epoch", epoch}}, Checkpoint::save(model));
      if (static_cast<int64_t>(seen.size()) == config.get<int64_t>("fail_at")) throw std::runtime_error("once");
    }
  }
  return seen;
}
PACELINE_TRAIN_LOOP(read_datasets);

class DatasetShardsTest : public ::testing::Test {
 protected:
  Result fit(int64_t fail_at, const data::Dataset& train, const DataConfig& config = {}) {
    return TorchTrainer(read_datasets,
                        {.train_loop_config = {{"fail_at", fail_at}},
                         .scaling_config = {.num_workers = 0},
                         .run_config = {.name = "run", .storage_path = folder_.path(), .log_level = "ERROR"},
                         .datasets = {{"train", train}},
                         .dataset_config = config})
        .fit();
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(DatasetShardsTest, ARestartGoesOnBehindTheReportedBatch) {
  const data::Dataset numbers = data::range(6);
  EXPECT_THROW(fit(4, numbers), TrainingFailedError);
  EXPECT_EQ(fit(-1, numbers).return_value, Json::parse("[[1,2],[1,4]]"));
}

// As a program does that is started again: it shuffles anew, without a seed.
TEST_F(DatasetShardsTest, AShuffleWithoutASeedGoesOnInItsOrder) {
  EXPECT_THROW(fit(4, data::range(100).random_shuffle()), TrainingFailedError);
  const Json rest = fit(-1, data::range(100).random_shuffle()).return_value;
  EXPECT_EQ(rest.size(), 96u);
}

TEST_F(DatasetShardsTest, WithoutResumeItBeginsAnew) {
  const data::Dataset numbers = data::range(4);
  EXPECT_THROW(fit(1, numbers), TrainingFailedError);
  EXPECT_EQ(fit(-1, numbers, {.resume = false}).return_value, Json::parse("[[0,0],[0,2],[1,0],[1,2]]"));
}

TEST_F(DatasetShardsTest, AnotherDatasetCannotGoOnThere) {
  EXPECT_THROW(fit(1, data::range(6)), TrainingFailedError);
  try {
    fit(-1, data::range(7));
    FAIL();
  } catch (const TrainingFailedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the dataset \"train\" cannot go on where the checkpoint"));
    EXPECT_THAT(error.what(), HasSubstr("its fingerprint is"));
  }
}

TEST_F(DatasetShardsTest, WhatIsNotAllowedIsRefusedAtOnce) {
  const auto message = [](const DataConfig& config) {
    try {
      TorchTrainer(read_datasets, {.datasets = {{"train", data::range(2)}}, .dataset_config = config});
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message({.equal = "even"}), HasSubstr("DataConfig.equal is \"even\""));
  EXPECT_THAT(message({.execution_options = {.cpu = 0}}), HasSubstr("DataConfig.execution_options.cpu is 0"));
  EXPECT_THAT(message({.equal_by_name = {{"train", "even"}}}), HasSubstr("DataConfig.equal is \"even\""));
  EXPECT_THAT(message({.equal_by_name = {{"test", "pad"}}}), HasSubstr("equal_by_name names \"test\", which is none"));
  EXPECT_THAT(message({.datasets_to_split = DatasetNames{"test"}}), HasSubstr("names \"test\", which is none of"));
}

TEST_F(DatasetShardsTest, LimitsTravelWithTheDatasets) {
  train::RunDatasets datasets{.plans = {{"train", data::range(2).plan()}},
                              .config = {.execution_options = {.cpu = 6, .memory = 1000}}};
  const std::string bytes = train::encode_datasets(datasets);
  const ExecutionOptions options = train::decode_datasets(bytes).config.execution_options;
  EXPECT_EQ(train::limits_of(options).threads, 6);
  EXPECT_EQ(train::limits_of(options, 4).threads, 1);
  EXPECT_EQ(train::limits_of(options, 4).read_ahead_bytes, 1000);
  EXPECT_GE(train::limits_of({}).threads, 1);
  EXPECT_EQ(train::limits_of({}).read_ahead_bytes, 256 << 20);
}

TEST_F(DatasetShardsTest, EachDatasetMayShareItsRowsInAnotherWay) {
  const DataConfig config{.equal = "repeat", .equal_by_name = {{"test", "uneven"}, {"other", "pad"}}};
  EXPECT_EQ(train::equal_of(config, "train"), data::Equal::repeat);
  EXPECT_EQ(train::equal_of(config, "test"), data::Equal::uneven);
  EXPECT_EQ(train::equal_of(config, "other"), data::Equal::pad);
}

}  // namespace
}  // namespace paceline
