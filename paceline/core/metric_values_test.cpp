#include "paceline/core/metric_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace paceline {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(ScoreOf, NumbersOfAllKinds) {
  EXPECT_EQ(score_of(0.5), 0.5);
  EXPECT_EQ(score_of(-3), -3.0);
  EXPECT_EQ(score_of(std::numeric_limits<uint64_t>::max()), 0x1p64);
  EXPECT_EQ(score_of(true), 1.0);
  EXPECT_EQ(score_of(false), 0.0);
  EXPECT_EQ(score_of({"$int", "1180591620717411303424"}), 0x1p70);
  EXPECT_EQ(score_of({"$int", "-1180591620717411303424"}), -0x1p70);
  EXPECT_EQ(score_of({"$decimal", "1.10"}), 1.1);
  EXPECT_EQ(score_of({"$decimal", "-1E+2"}), -100.0);
  EXPECT_EQ(score_of({"$fraction", "-1/4"}), -0.25);
  EXPECT_EQ(score_of({"$fraction", "3"}), 3.0);
}

TEST(ScoreOf, NumbersBeyondADouble) {
  EXPECT_EQ(score_of({"$int", "-1" + std::string(400, '0')}), -kInfinity);
  EXPECT_EQ(score_of({"$decimal", "1E+400"}), kInfinity);
  EXPECT_EQ(score_of({"$decimal", "-1E-400"}), 0.0);
  EXPECT_EQ(score_of({"$decimal", "-Infinity"}), -kInfinity);
  EXPECT_TRUE(std::isnan(score_of({"$decimal", "NaN"}).value()));
  EXPECT_TRUE(std::isnan(score_of(std::nan("")).value()));
}

TEST(ScoreOf, NothingOfAllElse) {
  for (const char* text : {R"("0.5")", "null", "[]", "[1, 2]", R"(["$int"])", R"(["$int", 5])", R"(["$decimal", ""])",
                           R"(["$decimal", "sNaN"])", R"(["$int", "12x"])", R"(["$fraction", "1/"])",
                           R"(["$date", "2026"])", R"({"$int": "5"})"}) {
    EXPECT_EQ(score_of(Json::parse(text)), std::nullopt) << text;
  }
}

Json updated(const char* metrics, const char* more) {
  Json result = Json::parse(metrics);
  update_metrics(result, Json::parse(more));
  return result;
}

TEST(UpdateMetrics, KeepsTheListOfKeysTrue) {
  EXPECT_EQ(updated(R"({"a": 1, "b": 2})", R"({"b": 3})"), Json::parse(R"({"a": 1, "b": 3})"));
  EXPECT_EQ(updated(R"({"0": 1, "a": 2, "$keys": [0, "a"]})", R"({"a": 3, "b": 4})"),
            Json::parse(R"({"0": 1, "a": 3, "b": 4, "$keys": [0, "a", "b"]})"));
  EXPECT_EQ(updated(R"({"a": 1})", R"({"5": 2, "$keys": [5]})"), Json::parse(R"({"a": 1, "5": 2, "$keys": ["a", 5]})"));
  EXPECT_EQ(updated(R"({"0": 1, "$keys": [0]})", R"({"0": 2, "5": 3, "$keys": [0, 5]})"),
            Json::parse(R"({"0": 2, "5": 3, "$keys": [0, 5]})"));
}

TEST(UpdateMetrics, AnotherListOfKeysIsAMemberAsAnyOther) {
  EXPECT_EQ(updated(R"({"$keys": 1})", R"({"b": 3})"), Json::parse(R"({"$keys": 1, "b": 3})"));
}

}  // namespace
}  // namespace paceline
