#include "paceline/core/state_directory.h"

#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

namespace paceline {
namespace {

class StateDirectoryTest : public ::testing::Test {
 protected:
  StateDirectoryTest() {
    for (const char* name : {"PACELINE_STATE_DIR", "XDG_STATE_HOME"}) ::unsetenv(name);
    ::setenv("HOME", "/home/ada", 1);
  }
};

TEST_F(StateDirectoryTest, TheMostParticularVariableWins) {
  EXPECT_EQ(state_directory().ValueOrDie(), "/home/ada/.local/state/paceline");
  ::setenv("XDG_STATE_HOME", "/state/", 1);
  EXPECT_EQ(state_directory().ValueOrDie(), "/state/paceline");
  ::setenv("PACELINE_STATE_DIR", "/own/", 1);
  EXPECT_EQ(state_directory().ValueOrDie(), "/own");
}

TEST_F(StateDirectoryTest, EmptyAndRelativeOnesAreNoFolders) {
  ::setenv("PACELINE_STATE_DIR", "", 1);
  ::setenv("XDG_STATE_HOME", "state", 1);
  EXPECT_EQ(state_directory().ValueOrDie(), "/home/ada/.local/state/paceline");
  ::setenv("PACELINE_STATE_DIR", "state", 1);
  EXPECT_TRUE(state_directory().status().IsInvalid());
}

TEST_F(StateDirectoryTest, WithoutHomeItIsTheUsers) {
  ::unsetenv("HOME");
  const std::string home = ::getpwuid(::getuid())->pw_dir;
  EXPECT_EQ(home_directory(), home);
  EXPECT_EQ(state_directory().ValueOrDie(), home + "/.local/state/paceline");
}

}  // namespace
}  // namespace paceline
