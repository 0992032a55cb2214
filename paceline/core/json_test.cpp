#include "paceline/core/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace paceline {
namespace {

TEST(Json, KeepsNonFiniteNumbersAtAnyDepth) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Json value = {{"loss", std::nan("")}, {"deep", {{"low", -infinity}, {"list", {1.5, infinity}}}}};
  const Json read = decode_json(encode_json(value)).ValueOrDie();
  EXPECT_TRUE(std::isnan(read["loss"].get<double>()));
  EXPECT_EQ(read["deep"]["low"].get<double>(), -infinity);
  EXPECT_EQ(read["deep"]["list"][1].get<double>(), infinity);
  EXPECT_EQ(read["deep"]["list"][0].get<double>(), 1.5);
}

TEST(Json, KeepsIntegersAndDoublesExactly) {
  const Json value = {{"int", int64_t{9007199254740993}}, {"double", 0.1}};
  EXPECT_EQ(decode_json(encode_json(value)).ValueOrDie(), value);
}

TEST(Json, RefusesWhatIsNotJson) {
  EXPECT_TRUE(decode_json("{\"a\":").status().IsInvalid());
  EXPECT_TRUE(decode_json("").status().IsInvalid());
}

TEST(Json, WritesInvalidUtf8InsteadOfThrowing) {
  EXPECT_TRUE(decode_json(encode_json(Json{{"text", "\xff\xfe"}})).ok());
}

}  // namespace
}  // namespace paceline
