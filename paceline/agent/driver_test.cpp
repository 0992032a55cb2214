// What is left when the driver dies.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include "paceline/agent/process_fixture.h"
#include "paceline/agent/spawn_internal.h"

namespace paceline::agent {
namespace {

class DriverTest : public ProcessFixture {
 protected:
  // Starts a driver, kills it, and expects that the guardian ends what it had started, and itself.
  void expect_nothing_is_left(rpc::Strings arguments) {
    arguments.insert(arguments.begin(), program_beside_test("agent_test_driver"));
    const SpawnedProcess driver = spawn({.arguments = std::move(arguments)}).ValueOrDie();
    std::vector<Descriptor> below;
    for (std::string line = read_line(driver); line != "ready"; line = read_line(driver))
      below.push_back(pidfd_of(line));
    ASSERT_EQ(below.size(), 6u);
    for (const Descriptor& process : below) EXPECT_FALSE(has_ended(process));
    must(signal_process(driver.pidfd, SIGKILL));
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

TEST_F(DriverTest, NothingIsLeftAlthoughAForkedProcessHoldsTheLease) {
  expect_nothing_is_left({"forked"});
}

}  // namespace
}  // namespace paceline::agent
