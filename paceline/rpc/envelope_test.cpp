#include "paceline/rpc/envelope.h"

#include <gtest/gtest.h>

#include <limits>

#include "paceline/rpc/messages.h"

namespace paceline::rpc {
namespace {

bool mentions(const arrow::Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

TEST(Envelope, UnknownFieldsAreIgnored) {
  const auto envelope = decode_head(R"({"type": "stop", "version": [1, 9], "colour": "red", "sequence": 3,
                                        "identity": {"worker": 5, "shoe_size": 44},
                                        "body": {"reason": "enough", "politely": true}})");
  ASSERT_TRUE(envelope.ok()) << envelope.status();
  EXPECT_EQ(envelope->identity.worker, WorkerId{5});
  EXPECT_EQ(unpack<Stop>(*envelope)->reason, "enough");
}

TEST(Envelope, AbsentFieldsHaveTheirDefault) {
  const auto envelope = decode_head(R"({"type": "assign", "version": [1, 0], "body": {"rank": 3}})");
  ASSERT_TRUE(envelope.ok()) << envelope.status();
  EXPECT_EQ(envelope->identity, Identity{});
  EXPECT_EQ(envelope->sequence, 0);
  EXPECT_EQ(envelope->request, 0);
  const auto assign = unpack<Assign>(*envelope);
  ASSERT_TRUE(assign.ok());
  EXPECT_EQ(assign->rank, Rank{3});
  EXPECT_EQ(assign->world_size, 1);
  EXPECT_EQ(assign->first_report, 1);
}

TEST(Envelope, AnotherMajorVersionIsRefusedNamingBoth) {
  const auto envelope = decode_head(R"({"type": "stop", "version": [2, 7]})");
  ASSERT_TRUE(envelope.status().IsInvalid());
  EXPECT_TRUE(mentions(envelope.status(), "2.7"));
  EXPECT_TRUE(mentions(envelope.status(), "1.0"));
}

TEST(Envelope, NonsenseIsInvalid) {
  for (const char* text :
       {"", "{", "[]", "7", "null", R"({"type": "stop"})", R"({"type": "stop", "version": 1})",
        R"({"type": "stop", "version": [1.0, 0]})", R"({"version": [1, 0]})", R"({"type": 5, "version": [1, 0]})",
        R"({"type": "stop", "version": [1, 0], "sequence": "one"})",
        R"({"type": "stop", "version": [1, 0], "request": 1.5})",
        R"({"type": "stop", "version": [1, 0], "identity": [1, 2]})",
        R"({"type": "stop", "version": [1, 0], "identity": {"worker": "me"}})", "{\"type\": \"\xff\"}"}) {
    EXPECT_TRUE(decode_head(text).status().IsInvalid()) << text;
  }
}

TEST(Envelope, DeepNestingIsRefusedBeforeItIsParsed) {
  const std::string deep(1'000'000, '[');
  const auto envelope = decode_head(R"({"type": "a", "version": [1, 0], "body": {"$number": )" + deep);
  ASSERT_TRUE(envelope.status().IsInvalid());
  EXPECT_TRUE(mentions(envelope.status(), "nested too deeply"));
  // Brackets in a text are no nesting.
  EXPECT_TRUE(decode_head(R"({"type": "a", "version": [1, 0], "body": {"text": "\")" + deep + "\"}}").ok());
}

TEST(Envelope, NonFiniteMetricsSurvive) {
  Report report;
  report.metrics = {{"loss", std::numeric_limits<double>::infinity()}};
  const auto read = decode_head(encode_head(pack(report)));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(unpack<Report>(*read)->metrics["loss"], std::numeric_limits<double>::infinity());
}

TEST(Unpack, NamesBothTypesAndWhatDoesNotFit) {
  const auto other = unpack<Stop>(pack(Heartbeat{}));
  ASSERT_TRUE(other.status().IsInvalid());
  EXPECT_TRUE(mentions(other.status(), "wanted stop, got heartbeat"));
  Envelope envelope = pack(Stop{});
  envelope.body["reason"] = 5;
  const auto wrong = unpack<Stop>(envelope);
  ASSERT_TRUE(wrong.status().IsInvalid());
  EXPECT_TRUE(mentions(wrong.status(), "stop"));
  envelope.body = "no object";
  EXPECT_TRUE(unpack<Stop>(envelope).status().IsInvalid());
}

}  // namespace
}  // namespace paceline::rpc
