#include "paceline/transport/hello.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/json.h"

namespace paceline::transport {
namespace {

using ::testing::HasSubstr;

TEST(Hello, ComesBackAsItWasWritten) {
  const Hello hello{.run = "run-1", .peer = std::string(32, 'a'), .name = "nœud-7", .received = 12, .resumed = true};
  EXPECT_EQ(*decode_hello(encode_hello(hello)), hello);
  const HelloAnswer answer{.received = 12, .refused = "why"};
  EXPECT_EQ(*decode_hello_answer(encode_hello_answer(answer)), answer);
}

TEST(Hello, FieldsThatAreNotKnownYetAreIgnored) {
  Json json = Hello{.run = "run-1", .peer = std::string(32, '0'), .name = "node-7"};
  json["minor"] = 99;
  json["later"] = {1, 2};
  EXPECT_EQ(decode_hello(encode_json(json))->run, "run-1");
}

TEST(Hello, RefusesWhatCannotBe) {
  const Json good = Hello{.run = "run-1", .peer = std::string(32, '0'), .name = "node-7"};
  const auto with = [&](const char* field, const Json& value) {
    Json json = good;
    json[field] = value;
    return decode_hello(encode_json(json)).status();
  };
  ASSERT_TRUE(decode_hello(encode_json(good)).ok());
  EXPECT_TRUE(with("run", "").IsInvalid());
  EXPECT_TRUE(with("run", 7).IsInvalid());
  EXPECT_TRUE(with("name", "a\nb").IsInvalid()) << "it goes into logs";
  EXPECT_TRUE(with("name", std::string(257, 'a')).IsInvalid());
  EXPECT_TRUE(with("peer", std::string(31, '0')).IsInvalid());
  EXPECT_TRUE(with("peer", std::string(32, 'A')).IsInvalid());
  EXPECT_TRUE(with("received", -1).IsInvalid());
  EXPECT_THAT(with("major", 2).message(), HasSubstr("the controller speaks 1.0, the agent 2.0"));
  EXPECT_TRUE(with("more", std::string(5000, 'a')).IsInvalid());
  EXPECT_TRUE(decode_hello("[]").status().IsInvalid());
  EXPECT_TRUE(decode_hello_answer(R"({"received":-1})").status().IsInvalid());
}

}  // namespace
}  // namespace paceline::transport
