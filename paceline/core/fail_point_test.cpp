#include "paceline/core/fail_point.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace paceline {
namespace {

// The environment is read once a process: each case runs in a process of its own.
TEST(FailPointDeathTest, DoesNothingUnlessAsked) {
  EXPECT_EXIT(
      {
        ::unsetenv("PACELINE_FAIL_POINTS");
        std::exit(fail_point("a").ok() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(FailPointDeathTest, FailsAtTheNamedPassages) {
  EXPECT_EXIT(
      {
        ::setenv("PACELINE_FAIL_POINTS", "b=error, a=error@2, d=error@*", 1);
        const bool as_asked = fail_point("a").ok() && fail_point("a").IsIOError() && fail_point("a").ok() &&
                              fail_point("b").IsIOError() && fail_point("c").ok() && fail_point("d").IsIOError() &&
                              fail_point("d").IsIOError();
        std::exit(as_asked ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(FailPointDeathTest, Kills) {
  EXPECT_EXIT(
      {
        ::setenv("PACELINE_FAIL_POINTS", "a=kill", 1);
        (void)fail_point("a");
      },
      testing::KilledBySignal(SIGKILL), "");
}

}  // namespace
}  // namespace paceline
