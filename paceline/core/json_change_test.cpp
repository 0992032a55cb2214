#include "paceline/core/json_change.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(JsonChange, HasWhatIsNewOrOther) {
  const Json before = {{"a", 1}, {"b", {1, 2}}, {"c", nullptr}};
  const JsonChange change = change_of(before, {{"a", 1}, {"b", {1}}, {"d", "new"}});
  EXPECT_EQ(change.set, Json({{"b", {1}}, {"d", "new"}}));
  EXPECT_EQ(change.removed, std::vector<std::string>{"c"});
  EXPECT_TRUE(change_of(before, before).is_empty());
}

TEST(JsonChange, AppliedItGivesWhatItCameFrom) {
  const Json values[] = {Json::object(), {{"a", 1}}, {{"a", {{"x", 1}}}, {"b", false}}, {{"b", nullptr}}};
  for (const Json& before : values) {
    for (const Json& after : values) {
      Json value = before;
      apply_change(change_of(before, after), value);
      EXPECT_EQ(value, after) << before << " to " << after;
    }
  }
}

}  // namespace
}  // namespace paceline
