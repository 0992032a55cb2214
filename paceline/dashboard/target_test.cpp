// Addresses, also those that nobody should send.
#include "paceline/dashboard/target.h"

#include <gmock/gmock.h>

namespace paceline::dashboard {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Target, HasSegmentsAndAQuery) {
  const Target target = parse_target("/api/v1/runs/a%2Fb%3f/logs?grep=a+b%2B&limit=5&x&=&limit=7").ValueOrDie();
  EXPECT_THAT(target.path, ElementsAre("api", "v1", "runs", "a/b?", "logs"));
  EXPECT_EQ(target.query.text("grep"), "a b+");
  EXPECT_EQ(target.query.text("limit"), "7") << "the last counts";
  EXPECT_EQ(target.query.text("x"), "");
  EXPECT_EQ(target.query.number("limit", 1, 0, 9).ValueOrDie(), 7);
  EXPECT_EQ(target.query.number("none", 3, 0, 9).ValueOrDie(), 3);
  for (const char* empty : {"/", "/?", "/?&&"}) EXPECT_THAT(parse_target(empty).ValueOrDie().path, IsEmpty()) << empty;
  EXPECT_THAT(parse_target("/runs/").ValueOrDie().path, ElementsAre("runs"));
}

TEST(Target, RefusesWhatLeadsElsewhere) {
  for (const char* wrong :
       {"", "*", "http://evil.example/", "runs", "//evil.example", "/a//b", "/../a", "/a/..", "/./a", "/%2e%2e/a",
        "/%2E/a", "/a%00", "/%", "/%2", "/%zz", "/a?b=%", "/a?%00=1", "/a\\b", "/%5c"}) {
    EXPECT_TRUE(parse_target(wrong).status().IsInvalid()) << wrong;
  }
}

TEST(Target, NumbersAreWholeAndWithinBounds) {
  for (const char* wrong : {"x", "1x", "1.5", " 1", "%2B1", "99", "-1", "9223372036854775808"}) {
    const Target target = parse_target(std::string("/?n=") + wrong).ValueOrDie();
    EXPECT_TRUE(target.query.number("n", 0, 0, 9).status().IsInvalid()) << wrong;
  }
}

TEST(Target, EscapedTextComesBack) {
  std::string text;
  for (int byte = 1; byte < 256; ++byte) text += static_cast<char>(byte);
  text.erase(text.find('\\'), 1);
  EXPECT_THAT(parse_target("/" + escaped(text)).ValueOrDie().path, ElementsAre(text));
}

}  // namespace
}  // namespace paceline::dashboard
