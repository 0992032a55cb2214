#include "paceline/controller/version_check.h"

#include <gtest/gtest.h>

namespace paceline::controller {
namespace {

TEST(VersionCheck, NamesBothPlaces) {
  VersionCheck check;
  EXPECT_EQ(check.add("the driver's machine", {{"torch", "2.13.0"}, {"Python", "3.11.7"}}), "");
  EXPECT_EQ(check.add("node b", {{"torch", "2.13.0"}, {"the program's build", "abc"}}), "") << "what only some have";
  EXPECT_EQ(
      check.add("node c", {{"torch", "2.12.1"}, {"Python", "3.12.1"}, {"the program's build", "abc"}}),
      "Python is 3.11.7 on the driver's machine, but 3.12.1 on node c; torch is 2.13.0 on the driver's machine, but "
      "2.12.1 on node c; all need the same: install it there");
}

}  // namespace
}  // namespace paceline::controller
