#include "paceline/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "paceline/data/dataset/read_api.h"
#include "paceline/run/run_place.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

int64_t loops = 0;
void count_loops() {
  ++loops;
}
PACELINE_TRAIN_LOOP(count_loops);

std::string refusal(const TorchTrainerOptions& options) {
  try {
    TorchTrainer trainer(count_loops, options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TorchTrainer, RefusesWhatCannotRun) {
  const int64_t gpus = torch::cuda::device_count();  // NOLINT(bugprone-signed-char-misuse)
  const std::string there_are = "this machine has " + std::to_string(gpus) + " GPU";
  const int64_t many = gpus + 1;
  EXPECT_THAT(refusal({.scaling_config = {.num_workers = many, .use_gpu = true}}),
              AllOf(HasSubstr("num_workers = " + std::to_string(many)), HasSubstr(there_are)));
  EXPECT_THAT(refusal({.scaling_config = {.num_workers = many, .use_gpu = true, .resources_per_worker = {{"GPU", 2}}}}),
              AllOf(HasSubstr("2 GPUs each needs " + std::to_string(2 * many)), HasSubstr(there_are)));
  EXPECT_THAT(refusal({.scaling_config = {.num_workers = many, .use_gpu = true, .engine = "agents"}}),
              Not(HasSubstr(there_are)))
      << "other machines have others";
  EXPECT_THAT(refusal({.scaling_config = {.use_tpu = true}}), HasSubstr("use_tpu is set, but Paceline has no TPU"));
  EXPECT_THAT(refusal({.scaling_config = {.topology = "2x2"}}), HasSubstr("topology is set, but Paceline has no TPU"));
  EXPECT_THAT(refusal({.torch_config = {.backend = "nccl"}}), AllOf(HasSubstr("\"nccl\""), HasSubstr("use_gpu")));
  EXPECT_EQ(refusal({.torch_config = {.backend = "cpu:gloo,cuda:nccl"}}), "accepted");
  EXPECT_THAT(refusal({.torch_config = {.backend = "cuda:nccl"}}), HasSubstr("has none for CPUs"));
  for (const char* backend : {"mpi", "cpu:nccl", "cpu:", ":gloo", "cpu:gloo,", "gloo,cuda:nccl", ""}) {
    EXPECT_THAT(refusal({.torch_config = {.backend = backend}}), HasSubstr("such as \"cpu:gloo,cuda:nccl\""));
  }
  EXPECT_THAT(refusal({.scaling_config = {.resources_per_worker = {{"GPU", 1}}}}), HasSubstr("use_gpu"));
  EXPECT_EQ(refusal({.scaling_config = {.num_workers = 2}, .torch_config = {.backend = "gloo"}}), "accepted");
  if (gpus > 0) return;
  EXPECT_THAT(refusal({.scaling_config = {.num_workers = 0, .use_gpu = true}}),
              AllOf(HasSubstr("the calling process"), HasSubstr(there_are)));
}

TEST(TorchTrainer, DefaultNamesDifferWithinASecond) {
  const testing::TemporaryFolder folder;
  const TorchTrainerOptions options = {.scaling_config = {.num_workers = 0},
                                       .run_config = {.storage_path = folder.path(), .log_level = "ERROR"}};
  const std::string first = TorchTrainer(count_loops, options).fit().path;
  EXPECT_NE(first, TorchTrainer(count_loops, options).fit().path);
  EXPECT_THAT(std::filesystem::path(first).filename().string(), StartsWith("train_test_20")) << "the program's name";
  EXPECT_EQ(loops, 2);
}

TEST(TorchTrainer, ADatasetWhoseFilesAreMissingIsRefusedBeforeAnythingStarts) {
  const testing::TemporaryFolder folder;
  const TorchTrainerOptions options = {.scaling_config = {.num_workers = 0},
                                       .run_config = {.name = "run", .storage_path = folder.path()},
                                       .datasets = {{"train", data::read_parquet(folder / "none.parquet")}}};
  try {
    TorchTrainer(count_loops, options).fit();
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("datasets: \"train\""), HasSubstr(folder / "none.parquet")));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(TorchTrainer, ACheckpointThatIsGoneIsRefusedBeforeAnythingStarts) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "old/file", "content");
  const TorchTrainerOptions options = {.scaling_config = {.num_workers = 0},
                                       .run_config = {.name = "run", .storage_path = folder.path()},
                                       .resume_from_checkpoint = Checkpoint::from_directory(folder / "old")};
  std::filesystem::remove_all(folder / "old");
  try {
    TorchTrainer(count_loops, options).fit();
    FAIL();
  } catch (const StorageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("resume_from_checkpoint"), HasSubstr(folder / "old")));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

}  // namespace
}  // namespace paceline
