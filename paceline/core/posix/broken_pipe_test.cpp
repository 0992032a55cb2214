#include "paceline/core/posix/broken_pipe.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "paceline/testing/in_fork.h"

namespace paceline {
namespace {

bool writing_fails_with_epipe() {
  int ends[2];
  if (::pipe(ends) != 0 || ::close(ends[0]) != 0) return false;
  return ::write(ends[1], "x", 1) == -1 && errno == EPIPE;
}

TEST(BrokenPipe, IsAnErrorOfTheWrite) {
  EXPECT_FALSE(testing::holds_in_fork([] {
    ::signal(SIGPIPE, SIG_DFL);
    return writing_fails_with_epipe();
  }));
  EXPECT_TRUE(testing::holds_in_fork([] {
    ::signal(SIGPIPE, SIG_DFL);
    survive_broken_pipes();
    return writing_fails_with_epipe();
  }));
}

TEST(BrokenPipe, LeavesTheProgramsOwnHandler) {
  EXPECT_TRUE(testing::holds_in_fork([] {
    static volatile std::sig_atomic_t heard = 0;
    ::signal(SIGPIPE, [](int) { heard = 1; });
    survive_broken_pipes();
    return writing_fails_with_epipe() && heard == 1;
  }));
}

}  // namespace
}  // namespace paceline
