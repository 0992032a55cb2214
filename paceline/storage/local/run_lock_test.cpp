#include "paceline/storage/local/run_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <future>

#include "paceline/core/json.h"
#include "paceline/core/posix/host_name.h"
#include "paceline/core/posix/pidfd.h"
#include "paceline/storage/local/durable.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::storage {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;

TEST(RunLock, IsHeldOnceEvenWithinOneProcess) {
  const TemporaryFolder folder;
  {
    const auto lock = RunLock::acquire(folder.path());
    ASSERT_TRUE(lock.ok()) << lock.status();
    const auto second = RunLock::acquire(folder.path());
    EXPECT_TRUE(second.status().IsAlreadyExists());
    EXPECT_THAT(
        second.status().message(),
        AllOf(HasSubstr(folder.path()), HasSubstr("process " + std::to_string(::getpid())), HasSubstr(host_name())));
  }
  EXPECT_TRUE(RunLock::acquire(folder.path()).ok());
}

TEST(RunLock, NamesTheHolderAfterALongerOne) {
  const TemporaryFolder folder;
  testing::write_file(folder / "run.lock", std::string(500, 'x'));
  const auto lock = RunLock::acquire(folder.path());
  ASSERT_TRUE(lock.ok());
  EXPECT_THAT(RunLock::acquire(folder.path()).status().message(), HasSubstr(std::to_string(::getpid())));
}

TEST(RunLock, EndsWithItsProcessHoweverItEnds) {
  const TemporaryFolder folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    const auto lock = RunLock::acquire(folder.path());
    if (lock.ok()) (void)!::write(ready[1], "x", 1);
    ::pause();
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THAT(RunLock::acquire(folder.path()).status().message(), HasSubstr("process " + std::to_string(holder)));
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  EXPECT_TRUE(RunLock::acquire(folder.path()).ok());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(RunLock, AProcessThatTheHolderForksDoesNotHoldIt) {
  const TemporaryFolder folder;
  std::optional<RunLock> lock = RunLock::acquire(folder.path()).ValueOrDie();
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  EXPECT_TRUE(RunLock::acquire(folder.path()).status().IsAlreadyExists()) << "the child has let go of ours";
  lock.reset();
  EXPECT_TRUE(RunLock::acquire(folder.path()).ok()) << "whether or not the child has come to run";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(RunLock, AProcessThatADeadHolderForkedDoesNotHoldIt) {
  const TemporaryFolder folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    ::setpgid(0, 0);
    const auto lock = RunLock::acquire(folder.path());
    if (::fork() == 0) (void)!::write(ready[1], lock.ok() ? "x" : "-", 1);
    while (true) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  EXPECT_TRUE(RunLock::acquire(folder.path()).ok());
  ::kill(-holder, SIGKILL);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(RunLock, WaitsWhileAGuardianTidiesUpAfterADeadHolder) {
  const TemporaryFolder folder;
  const pid_t holder = ::fork();
  if (holder == 0) ::_exit(0);
  pollfd ended{open_pidfd(holder).ValueOrDie().release(), POLLIN, 0};
  ASSERT_EQ(::poll(&ended, 1, 60'000), 1);
  ::close(ended.fd);
  testing::write_file(folder / "run.lock", encode_json({{"pid", holder}, {"host", host_name()}}));
  std::optional<RunLock> tidying = RunLock::acquire_after_death(folder.path()).ValueOrDie();
  auto next = std::async(std::launch::async, [&] { return RunLock::acquire(folder.path()).status(); });
  EXPECT_EQ(next.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  tidying.reset();
  EXPECT_TRUE(next.get().ok());
  ::waitpid(holder, nullptr, 0);
}

TEST(RunLock, TidyingUpGivesWayToADriver) {
  const TemporaryFolder folder;
  EXPECT_TRUE(RunLock::acquire_after_death(folder.path()).status().IsIOError()) << "there was no lock";
  const auto lock = RunLock::acquire(folder.path());
  EXPECT_TRUE(RunLock::acquire_after_death(folder.path()).status().IsAlreadyExists());
}

TEST(RunLock, NeedsAFolder) {
  const TemporaryFolder folder;
  EXPECT_TRUE(RunLock::acquire(folder / "missing").status().IsIOError());
}

}  // namespace
}  // namespace paceline::storage
