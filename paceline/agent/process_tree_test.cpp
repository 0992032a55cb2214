#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>

#include "paceline/agent/process_fixture.h"
#include "paceline/agent/process_tree_internal.h"

namespace paceline::agent {
namespace {

using ::testing::UnorderedElementsAre;

pid_t fork_sleeper() {
  const pid_t child = ::fork();
  if (child != 0) return child;
  while (true) ::pause();
}

class ProcessTreeTest : public ProcessFixture {};

TEST_F(ProcessTreeTest, ListsChildrenInBothWays) {
  EXPECT_THAT(children_of(::getpid()), UnorderedElementsAre());
  const pid_t first = fork_sleeper();
  const pid_t second = fork_sleeper();
  EXPECT_THAT(children_of(::getpid()), UnorderedElementsAre(first, second));
  EXPECT_THAT(children_by_parent(::getpid()), UnorderedElementsAre(first, second));
  ::kill(first, SIGKILL);
  ::kill(second, SIGKILL);
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
}

TEST_F(ProcessTreeTest, AddsUpWhatIsUsedBelow) {
  EXPECT_FALSE(usage_below(::getpid()).ok());
  const pid_t first = fork_sleeper();
  const auto before = process_usage(first).ValueOrDie();  // it may still grow
  const auto one = usage_below(::getpid()).ValueOrDie();
  EXPECT_GE(one.resident_bytes, before.resident_bytes);
  EXPECT_LE(one.resident_bytes, process_usage(first).ValueOrDie().resident_bytes);
  const pid_t second = fork_sleeper();
  const auto both = usage_below(::getpid()).ValueOrDie();
  EXPECT_GT(both.resident_bytes, one.resident_bytes);
  for (const pid_t child : {first, second}) ::kill(child, SIGKILL);
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
}

TEST_F(ProcessTreeTest, KillsAcrossSessions) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const Descriptor read_end(ready[0]);
  Descriptor write_end(ready[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::fork() == 0) {
      ::setsid();
      if (fork_sleeper() > 0 && ::write(write_end.get(), "x", 1) != 1) ::_exit(1);
    }
    while (true) ::pause();
  }
  write_end.reset();
  char byte;
  ASSERT_EQ(::read(read_end.get(), &byte, 1), 1);
  kill_tree_from_outside(child, pidfd_of(std::to_string(child)).get());
  // This test is their subreaper: all three have ended, or this waits for ever.
  int ended = 0;
  while (::waitpid(-1, nullptr, 0) > 0) ++ended;
  EXPECT_EQ(ended, 3);
}

TEST_F(ProcessTreeTest, SparesAProcessThatHasTheNumberOfOneThatEnded) {
  const pid_t ended = fork_sleeper();
  const Descriptor its_pidfd = pidfd_of(std::to_string(ended));
  ::kill(ended, SIGKILL);
  ::waitpid(ended, nullptr, 0);
  const pid_t other = fork_sleeper();
  kill_tree_from_outside(other, its_pidfd.get());  // as if the number were used again
  ::kill(other, SIGTERM);
  int status = 0;
  ::waitpid(other, &status, 0);
  EXPECT_EQ(WTERMSIG(status), SIGTERM) << "it lived until then";
}

}  // namespace
}  // namespace paceline::agent
