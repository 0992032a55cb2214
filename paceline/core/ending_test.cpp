#include "paceline/core/ending.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(Ending, FinalStatesAreReadAsTheyAreWritten) {
  for (const char* text : {"finished", "errored", "aborted"}) {
    const auto state = final_state_of(text);
    ASSERT_TRUE(state) << text;
    EXPECT_EQ(to_string(*state), text);
    EXPECT_EQ(nlohmann::json(*state), text);
  }
  for (const char* text : {"running", "shutting_down", "Finished", ""}) EXPECT_FALSE(final_state_of(text)) << text;
}

TEST(Ending, OnlyWhatOtherNodesWouldHealIsOfNodes) {
  EXPECT_TRUE(is_of_nodes(FailureKind::node));
  EXPECT_TRUE(is_of_nodes(FailureKind::resources));
  EXPECT_FALSE(is_of_nodes(FailureKind::exception));
  EXPECT_FALSE(is_of_nodes(std::nullopt));
}

}  // namespace
}  // namespace paceline
