#include "paceline/core/spelling.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(Spelling, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("show", "show"), 0u);
  EXPECT_EQ(edit_distance("", "show"), 4u);
  EXPECT_EQ(edit_distance("shw", "show"), 1u);
  EXPECT_EQ(edit_distance("shwo", "show"), 1u) << "neighbours swapped";
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Spelling, SuggestsWhatIsNear) {
  const std::vector<std::string> commands = {"show", "stop", "stacks", "checkpoint", "completion"};
  EXPECT_EQ(nearest("shwo", commands), "show");
  EXPECT_EQ(nearest("chekpoint", commands), "checkpoint");
  EXPECT_EQ(nearest("check", commands), "checkpoint") << "the only one that begins so";
  EXPECT_EQ(nearest("s", commands), std::nullopt) << "several begin so";
  EXPECT_EQ(nearest("delete", commands), std::nullopt);
  EXPECT_EQ(nearest("", commands), std::nullopt);
  EXPECT_EQ(suggestion("stopp", commands), "; did you mean \"stop\"?");
  EXPECT_EQ(suggestion("delete", commands), "");
}

}  // namespace
}  // namespace paceline
