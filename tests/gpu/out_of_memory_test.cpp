// A GPU that is full is an exception of the rank that has asked for too much, and a restart finds it free.
#include "tests/gpu/gpu_fixture.h"

namespace {

using paceline::Config;
using paceline::Json;
using paceline::testing::Gpu;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// In the first attempt rank 1 asks for more than any GPU has.
Json exhaust_memory(const Config&) {
  const auto context = paceline::get_context();
  auto model = paceline::prepare_model(torch::nn::Linear(4, 1));
  std::vector<torch::Tensor> held = {torch::ones({int64_t{1} << 28}, paceline::get_device())};  // 1 GiB, all the time
  if (context.get_attempt() == 1 && context.get_world_rank() == 1) {
    held.push_back(torch::empty({int64_t{1} << 48}, paceline::get_device()));
  }
  model->forward(torch::ones({2, 4}, paceline::get_device())).sum().backward();
  return context.get_attempt();
}
PACELINE_TRAIN_LOOP(exhaust_memory);

TEST_F(Gpu, OutOfMemoryNamesTheRankAndWhatToDo) {
  try {
    paceline::TorchTrainer(exhaust_memory, options(2)).fit();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const paceline::TrainingFailedError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("ank 1 of 2"), HasSubstr("CUDA out of memory"),
                                    HasSubstr("use smaller batches"), Not(HasSubstr("SIG"))));
    EXPECT_EQ(error.result().state, "errored");
  }
}

TEST_F(Gpu, ARestartAfterOutOfMemoryTrains) {
  auto with_restart = options(2);
  with_restart.run_config.failure_config.max_failures = 1;
  EXPECT_EQ(paceline::TorchTrainer(exhaust_memory, with_restart).fit().return_value, 2);
}

}  // namespace
