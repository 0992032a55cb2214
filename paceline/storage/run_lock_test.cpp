#include "paceline/storage/run_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "paceline/storage/local.h"
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
    char host[256] = {};
    ::gethostname(host, sizeof host - 1);
    EXPECT_THAT(second.status().message(),
                AllOf(HasSubstr(folder.path()), HasSubstr("process " + std::to_string(::getpid())), HasSubstr(host)));
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

TEST(RunLock, NeedsAFolder) {
  const TemporaryFolder folder;
  EXPECT_TRUE(RunLock::acquire(folder / "missing").status().IsIOError());
}

}  // namespace
}  // namespace paceline::storage
