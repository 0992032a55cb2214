#include "paceline/launch/environment.h"

#include <gmock/gmock.h>

namespace paceline::launch {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

ProgramPlace rank_one_of_two() {
  return {.assign = {.rank = {1}, .world_size = 2, .local_rank = 1, .local_world_size = 2},
          .attempt = {5},
          .threads = 3,
          .master_port = 29500,
          .store = "@store",
          .error_file = "/run/error.json"};
}

TEST(ProgramEnvironment, HasTorchrunsVariables) {
  const ProgramPlan plan{.role = "trainer", .run_id = "job", .max_restarts = 2, .first_attempt = 4};
  const auto environment = program_environment(plan, rank_one_of_two(), {{"HOME", "/home/me"}});
  const rpc::StringMap wanted = {{"HOME", "/home/me"},
                                 {"RANK", "1"},
                                 {"WORLD_SIZE", "2"},
                                 {"LOCAL_RANK", "1"},
                                 {"LOCAL_WORLD_SIZE", "2"},
                                 {"GROUP_RANK", "0"},
                                 {"GROUP_WORLD_SIZE", "1"},
                                 {"ROLE_NAME", "trainer"},
                                 {"ROLE_RANK", "1"},
                                 {"ROLE_WORLD_SIZE", "2"},
                                 {"MASTER_ADDR", "127.0.0.1"},
                                 {"MASTER_PORT", "29500"},
                                 {"TORCHELASTIC_RESTART_COUNT", "1"},
                                 {"TORCHELASTIC_MAX_RESTARTS", "2"},
                                 {"TORCHELASTIC_RUN_ID", "job"},
                                 {"TORCHELASTIC_ERROR_FILE", "/run/error.json"},
                                 {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                                 {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                 {"OMP_NUM_THREADS", "3"},
                                 {"GLOO_SOCKET_IFNAME", "lo"},
                                 {"NCCL_SOCKET_IFNAME", "lo"},
                                 {"PACELINE_STORE", "@store"},
                                 {"PACELINE_MASTER", "127.0.0.1:29500"}};
  EXPECT_EQ(environment, wanted);
}

TEST(ProgramEnvironment, KeepsWhatTheUserHasSet) {
  const rpc::StringMap own = {{"OMP_NUM_THREADS", "8"}, {"GLOO_SOCKET_IFNAME", "eth0"}, {"PYTHONPATH", "/mine"}};
  const auto environment = program_environment({.python_folder = "/start"}, rank_one_of_two(), own);
  EXPECT_THAT(environment, Contains(Pair("OMP_NUM_THREADS", "8")));
  EXPECT_THAT(environment, Contains(Pair("GLOO_SOCKET_IFNAME", "eth0")));
  EXPECT_THAT(environment, Contains(Pair("PYTHONPATH", "/start:/mine")));
}

TEST(ProgramEnvironment, AnOnlyWorkerHasAllThreads) {
  const ProgramPlace alone{.assign = {.world_size = 1, .local_world_size = 1}, .attempt = {1}, .threads = 2};
  EXPECT_THAT(program_environment({}, alone, {}), Not(Contains(Key("OMP_NUM_THREADS"))));
}

TEST(ProgramEnvironment, AVirtualLocalRankSeesItsOwnDevice) {
  const auto environment =
      program_environment({.virtual_local_rank = true}, rank_one_of_two(), {{"CUDA_VISIBLE_DEVICES", "4, 6"}});
  EXPECT_THAT(environment, Contains(Pair("LOCAL_RANK", "0")));
  EXPECT_THAT(environment, Contains(Pair("CUDA_VISIBLE_DEVICES", "6")));
  EXPECT_EQ(visible_device(std::nullopt, 3), "3");
  EXPECT_EQ(visible_device("0", 1), "-1");
}

TEST(ProgramCommand, KnowsItsLocalRank) {
  const ProgramPlan plan{
      .command = {"/bin/x", "--log=${local_rank}.txt"}, .debug_rank = 0, .debug_command = {"/bin/gdb", "/bin/x"}};
  EXPECT_THAT(program_command(plan, {.rank = {1}, .local_rank = 1}), ElementsAre("/bin/x", "--log=1.txt"));
  EXPECT_THAT(program_command(plan, {}), ElementsAre("/bin/gdb", "/bin/x"));
}

}  // namespace
}  // namespace paceline::launch
