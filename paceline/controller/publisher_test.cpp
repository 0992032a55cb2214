#include "paceline/controller/publisher.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "paceline/checkpoint/stage.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::controller {
namespace {

TEST(Publisher, AStorageThatHangsIsLeftToItself) {
  const paceline::testing::TemporaryFolder folder;
  const std::string part = (folder / "stage") + checkpoint::kPartEnding;
  paceline::testing::write_file(part, "{}");
  // While this end has a lease, opening the file waits, as it would for a server that is gone; SIGIO tells of the try.
  const Descriptor lease(::open(part.c_str(), O_RDWR | O_CLOEXEC));
  sigset_t io;
  sigemptyset(&io);
  sigaddset(&io, SIGIO);
  ::pthread_sigmask(SIG_BLOCK, &io, nullptr);
  if (::fcntl(lease.get(), F_SETLEASE, F_WRLCK) != 0) GTEST_SKIP() << "this file system has no leases";
  Inbox inbox;
  Publisher publisher(checkpoint::Store(folder.path()), inbox);
  publisher.add(PublishJob{.parts = {{0, "stage"}}});
  const timespec patience{60, 0};
  ASSERT_EQ(::sigtimedwait(&io, nullptr, &patience), SIGIO);
  EXPECT_FALSE(publisher.finish(std::chrono::milliseconds(20)));
  EXPECT_TRUE(publisher.finish()) << "nothing is left to wait for";
  ASSERT_EQ(::fcntl(lease.get(), F_SETLEASE, F_UNLCK), 0);
  EXPECT_TRUE(inbox.take().empty());
}

TEST(Publisher, FinishesWhatWaitsToBeDeleted) {
  const paceline::testing::TemporaryFolder folder;
  paceline::testing::write_file(folder / "checkpoint_000001/file", "x");
  Inbox inbox;
  Publisher publisher(checkpoint::Store(folder.path()), inbox);
  publisher.add(RemoveJob{1});
  EXPECT_TRUE(publisher.finish());
  EXPECT_FALSE(std::filesystem::exists(folder / "checkpoint_000001"));
}

}  // namespace
}  // namespace paceline::controller
