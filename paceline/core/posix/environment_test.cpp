#include "paceline/core/posix/environment.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace paceline {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

TEST(Environment, ChildrenHaveWhatTheUserSetAndNotWhatIsThisProcesssOwn) {
  ::setenv("PACELINE_TEST_OF_THE_USER", "a=b", 1);
  set_own_variable("PACELINE_TEST_OF_THE_USER", "mine");
  set_own_variable("PACELINE_TEST_OWN", "mine");
  EXPECT_STREQ(std::getenv("PACELINE_TEST_OWN"), "mine");
  EXPECT_THAT(child_environment(), Contains(Pair("PACELINE_TEST_OF_THE_USER", "a=b")));
  EXPECT_THAT(child_environment(), Not(Contains(Key("PACELINE_TEST_OWN"))));
  ::unsetenv("PACELINE_TEST_OF_THE_USER");
  ::unsetenv("PACELINE_TEST_OWN");
}

}  // namespace
}  // namespace paceline
