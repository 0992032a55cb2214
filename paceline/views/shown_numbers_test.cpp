// What lines tell, against what their whole values tell.
#include "paceline/views/shown_numbers.h"

#include <gtest/gtest.h>

#include "paceline/testing/shown_numbers_texts.h"

namespace paceline::views {
namespace {

TEST(ShownNumbers, AreThoseOfTheWholeValue) {
  ShownNumbers numbers;
  const auto expect_same = [&numbers](const std::string& line) {
    SCOPED_TRACE(line);
    EXPECT_EQ(testing::numbers_of(numbers, line), testing::numbers_of_value(line));
  };
  const std::string many(300, '['), closed(300, ']');
  for (
      const std::string metrics : {
          R"({})",
          R"({"loss":0.1,"n":3,"text":"a","is":true,"none":null,"list":[1,2]})",
          R"({"a":-0,"b":-0.0,"c":1e-400,"d":4.9e-324,"e":1.7976931348623157e308,"f":0.30000000000000004})",
          R"({"a":9223372036854775807,"b":9223372036854775808,"c":18446744073709551615,"d":18446744073709551616})",
          R"({"a":123456789012345678901234567890,"b":-9223372036854775809,"c":9007199254740993})",
          R"({"loss":{"$number":"nan"},"other":{"$number":"-inf"},"none":{"$number":"what"},"two":{"$number":"nan","n":1}})",
          R"({"loss":{"$bytes":"00ff"},"$number":1,"a":{"$keys":[1],"1":2},"b":{"$keys":3}})",
          R"({"eval":{"accuracy":0.5,"deep":{"er":1}},"eval/accuracy":2})",
          R"({"eval/accuracy":2,"eval":{"accuracy":0.5}})",
          R"({"z":1,"a":2,"m":{"y":1,"b":2}})",
          R"({"a":1,"a":2})",
          R"({"b":1,"a":{"x":1},"a":{"y":2}})",
          R"({"tab\t":1,"\u00e9":2,"é":3,"\ud83d\ude00":4})",
          R"({"\udc00":4})",
          R"({"a":1e999})",
          R"({"a":01})",
          R"({"a":1.})",
          R"({"a":NaN})",
          R"({"a":1,})",
          "{\"a\":\"\xff\",\"b\":1}",
          "{\"a\":\"\n\",\"b\":1}",
          R"([1,2])",
          R"("text")",
          R"({"$number":"nan"})",
          R"(null)",
          R"(7)",
      }) {
    const std::string before = R"({"attempt":1,"metrics":)" + metrics;
    expect_same(before + R"(,"rank":0,"report":7,"time":1.25})");
    expect_same(before + R"(,"rank":1,"report":7,"time":1.25})");
    expect_same(before + R"(,"later":true,"rank":0,"report":7,"time":1.25})");
    expect_same(before + R"(,"rank":0,"reduced":{"loss":8},"report":7,"time":1.25})");
    expect_same(R"({"attempt":1,"rank":-1,"reduced":)" + metrics + R"(,"report":7,"time":1.25})");
    expect_same(R"({"time":1,"report":2,"rank":0,"metrics":)" + metrics + "}");
    expect_same(before);
  }
  for (const std::string rest : {
           R"("rank":0)",
           R"("rank":null,"report":null,"time":null,"later":null,"highest":null,"checkpoint":null,"reduced":null)",
           R"("rank":-2)",
           R"("rank":0.5)",
           R"("rank":"0")",
           R"("rank":true)",
           R"("report":18446744073709551615)",
           R"("report":1.5)",
           R"("report":true)",
           R"("report":"1")",
           R"("time":3)",
           R"("time":18446744073709551615)",
           R"("time":"3")",
           R"("time":false)",
           R"("later":0)",
           R"("later":false)",
           R"("highest":0)",
           R"("highest":4,"settled":2)",
           R"("highest":"4")",
           R"("settled":"2")",
           R"("attempt":[])",
           R"("checkpoint":"checkpoint_000001")",
           R"("checkpoint":1)",
           R"("checkpoint":{"$bytes":"00ff"})",
           R"("unknown":{"a":[1,{"b":null}]})",
           R"("report":1,"report":2)",
       }) {
    expect_same(R"({"metrics":{"loss":0.5},)" + rest + "}");
  }
  for (const std::string line :
       {"", " ", "{", "{}", "[]", "null", "1", "\xef\xbb\xbf{}", "{} ", "{}}", "{}x", R"({"$number":"nan"})"}) {
    expect_same(line);
  }
  expect_same(std::string("{}\0", 3));
  expect_same(std::string("{}\0{", 4));
  for (const int depth : {150, 195, 196, 197, 198, 199, 200, 201}) {
    const auto size = static_cast<size_t>(depth);
    expect_same(R"({"metrics":{"a":1,"list":)" + many.substr(0, size) + closed.substr(0, size) + "}}");
  }
}

}  // namespace
}  // namespace paceline::views
