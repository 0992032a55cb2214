#include "paceline/core/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace paceline {
namespace {

TEST(Json, IsReadableWithNumbersThatAreNotFinite) {
  const Json value = {{"list", {1.0, std::nan(""), -INFINITY}}, {"name", "a\"b"}, {"none", Json::object()}};
  EXPECT_EQ(readable_json(value), R"({"list":[1.0,nan,-inf],"name":"a\"b","none":{}})");
  EXPECT_EQ(readable_json(INFINITY), "inf");
}

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

TEST(Json, RefusesWhatIsNestedTooDeeply) {
  const auto nested = [](int levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  const auto deepest = decode_json(nested(kDeepestJson));
  ASSERT_TRUE(deepest.ok());
  EXPECT_FALSE(is_too_deep(*deepest));
  EXPECT_TRUE(is_too_deep(Json::array({*deepest})));
  EXPECT_TRUE(decode_json(nested(kDeepestJson + 1)).status().IsInvalid());
  EXPECT_TRUE(decode_json(nested(100'000)).status().IsInvalid());
  EXPECT_TRUE(decode_json(std::string(100'000, '{')).status().IsInvalid());
  std::string objects;
  for (int level = 0; level < 100'000; ++level) objects += R"({"$number":)";
  EXPECT_TRUE(decode_json(objects + "0" + std::string(100'000, '}')).status().IsInvalid());
  EXPECT_TRUE(decode_json("[\"" + std::string(1000, '[') + "\\\"[\"]").ok()) << "brackets in a text";
}

TEST(Json, KeepsTextThatIsNotUtf8AtAnyDepth) {
  const Json value = {{"path", "/data/\xff\xfe"}, {"list", {"\xe4", "ä"}}, {"loss", std::nan("")}};
  const std::string text = encode_json(value);
  EXPECT_EQ(text, R"({"list":[{"$bytes":"e4"},"ä"],"loss":{"$number":"nan"},"path":{"$bytes":"2f646174612ffffe"}})");
  const Json read = decode_json(text).ValueOrDie();
  EXPECT_EQ(read["path"], value["path"]);
  EXPECT_EQ(read["list"], value["list"]);
  EXPECT_TRUE(std::isnan(read["loss"].get<double>()));
}

TEST(Json, LeavesObjectsOfTheUsersOwn) {
  for (const char* text : {R"({"$number":"seven"})", R"({"$bytes":"xy"})", R"({"$bytes":"abc"})", R"({"$bytes":7})"}) {
    EXPECT_EQ(encode_json(decode_json(text).ValueOrDie()), text);
  }
}

TEST(Json, ReplacesNamesThatAreNotUtf8) {
  EXPECT_TRUE(decode_json(encode_json(Json{{"\xff", 1}})).ok());
}

}  // namespace
}  // namespace paceline
