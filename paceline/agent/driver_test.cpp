// What is left when the driver dies.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <vector>

#include "paceline/agent/agent.h"
#include "paceline/agent/process_fixture.h"
#include "paceline/agent/spawn_internal.h"
#include "paceline/rpc/memory_channel.h"
#include "paceline/storage/local/run_lock.h"

namespace paceline::agent {
namespace {

class DriverTest : public ProcessFixture {
 protected:
  void SetUp() override {
    ProcessFixture::SetUp();
    folder_ = std::filesystem::path(testing::TempDir()) / ("driver_test_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_ / "whole/below");
    for (const char* file : {"run.lock", "socket", "whole/below/file"}) std::ofstream(folder_ / file) << "x";
  }

  void TearDown() override {
    std::filesystem::remove_all(folder_);
    ProcessFixture::TearDown();
  }

  // Starts a driver, kills it, and expects that the guardian ends what it had started, and itself.
  void expect_nothing_is_left(rpc::Strings arguments) {
    arguments.insert(arguments.begin(), folder_);
    arguments.insert(arguments.begin(), program_beside_test("agent_test_driver"));
    const SpawnedProcess driver = spawn({.arguments = std::move(arguments)}).ValueOrDie();
    std::vector<Descriptor> below;
    for (std::string line = read_line(driver); line != "ready"; line = read_line(driver))
      below.push_back(pidfd_of(line));
    ASSERT_EQ(below.size(), 6u);
    for (const Descriptor& process : below) EXPECT_FALSE(has_ended(process));
    signal_process(driver.pidfd, SIGKILL);
    for (const Descriptor& process : below) {
      pollfd event{process.get(), POLLIN, 0};
      EXPECT_EQ(::poll(&event, 1, std::chrono::milliseconds(kDeadline).count()), 1);
    }
    // What a user's program has forked by itself stays the user's; here it is in the driver's group.
    ::kill(-driver.pid, SIGKILL);
    // The driver and what its death has made this test's children: among them the guardian, which ends in order.
    bool guardian_ended = false;
    for (int status = 0; ::waitpid(-1, &status, 0) > 0;)
      guardian_ended |= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    EXPECT_TRUE(guardian_ended);
  }

  std::filesystem::path folder_;

 private:
  static std::string read_line(const SpawnedProcess& process) {
    std::string line;
    for (char c; ::read(process.standard_output.get(), &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
};

TEST_F(DriverTest, NothingIsLeftOfAKilledDriver) {
  expect_nothing_is_left({});
}

TEST_F(DriverTest, FilesThatADriverNamedAreRemovedWhenItIsKilled) {
  expect_nothing_is_left({});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "socket"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "whole"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run.lock")) << "only what was named";
}

TEST_F(DriverTest, ALinkIsRemovedIfItStillLeadsToAFileOfTheDrivers) {
  std::filesystem::create_symlink(folder_ / "socket", folder_ / "link");
  expect_nothing_is_left({});
  EXPECT_FALSE(std::filesystem::is_symlink(folder_ / "link"));
  std::filesystem::create_symlink("/of/another/machine", folder_ / "link");
  expect_nothing_is_left({});
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link"));
}

TEST_F(DriverTest, FilesStayWhenAnotherDriverHasTheRunAlready) {
  const auto lock = storage::RunLock::acquire(folder_).ValueOrDie();
  expect_nothing_is_left({});
  EXPECT_TRUE(std::filesystem::exists(folder_ / "socket"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "whole/below/file"));
}

TEST_F(DriverTest, AnAgentThatLeavesInOrderSaysGoodbye) {
  {
    const Guardian guardian = Guardian::fork_now().ValueOrDie();
    auto [controller_end, agent_end] = rpc::make_memory_channels();
    const auto agent = start_agent(std::move(agent_end), guardian).ValueOrDie();
    EXPECT_TRUE(controller_end->send(rpc::pack(rpc::Leftovers{folder_, {folder_ / "socket"}, {}})).ok());
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ / "socket"));
}

TEST_F(DriverTest, NothingIsLeftAlthoughAForkedProcessHoldsTheLease) {
  expect_nothing_is_left({"forked"});
}

}  // namespace
}  // namespace paceline::agent
