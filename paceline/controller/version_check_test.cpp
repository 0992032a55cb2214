#include "paceline/controller/version_check.h"

#include <gtest/gtest.h>

namespace paceline::controller {
namespace {

TEST(VersionCheck, NamesBothNodes) {
  VersionCheck check;
  EXPECT_EQ(check.add("a", {{"torch", "2.13.0"}, {"Python", "3.11.7"}}), "");
  EXPECT_EQ(check.add("b", {{"torch", "2.13.0"}, {"the program's build", "abc"}}), "") << "what only some have";
  EXPECT_EQ(check.add("c", {{"torch", "2.12.1"}, {"Python", "3.12.1"}, {"the program's build", "abc"}}),
            "Python is 3.11.7 on node a, but 3.12.1 on node c; torch is 2.13.0 on node a, but 2.12.1 on node c; all "
            "nodes need the same: install it there");
}

}  // namespace
}  // namespace paceline::controller
