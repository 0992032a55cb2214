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

}  // namespace
}  // namespace paceline
