#include "paceline/cli/agent_program.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "paceline/testing/temporary_folder.h"

namespace paceline::cli {
namespace {

using testing::TemporaryFolder;

// As drivers do it: whole or not at all.
void put(const std::string& path, const std::string& content) {
  testing::write_file(path + ".new", content);
  ASSERT_EQ(::chmod((path + ".new").c_str(), 0600), 0);
  std::filesystem::rename(path + ".new", path);
}

// Otherwise a driver would wait for agents that rest.
TEST(AgentProgram, ATokenFileThatHasComeSinceTheLastTryEndsTheRest) {
  const agent::Guardian guardian = agent::Guardian::fork_now().ValueOrDie();
  const TemporaryFolder folder;
  put(folder / "token", "{}");
  AgentProgram program({.token_file = folder / "token", .others_follow = true, .tell = [](const std::string&) {}},
                       guardian);
  EXPECT_FALSE(program.serve().status.ok());
  put(folder / "token", "{ }");
  EXPECT_TRUE(program.rest(std::chrono::hours(1)));
}

}  // namespace
}  // namespace paceline::cli
