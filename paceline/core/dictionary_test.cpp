#include "paceline/core/dictionary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Dictionary, GivesValuesByType) {
  const Config config = {{"num_epochs", 2}, {"rate", 1e-3}, {"data", "./data"}, {"sizes", {1, 2}}, {"amp", true}};
  EXPECT_EQ(config.get<int64_t>("num_epochs"), 2);
  EXPECT_EQ(config.get<double>("num_epochs"), 2.0);
  EXPECT_EQ(config.get<double>("rate"), 1e-3);
  EXPECT_EQ(config.get<std::string>("data"), "./data");
  EXPECT_EQ(config.get<std::vector<int>>("sizes"), (std::vector<int>{1, 2}));
  EXPECT_TRUE(config.get<bool>("amp"));
  EXPECT_EQ(config.get<int64_t>("absent", 7), 7);
}

TEST(Dictionary, ASinglePairIsAnObject) {
  const Metrics metrics = {{"loss", 0.5}};
  EXPECT_EQ(metrics.json().dump(), R"({"loss":0.5})");
}

TEST(Dictionary, NestedNamesAreSeparatedBySlashes) {
  const Metrics metrics = {{"eval", {{"accuracy", 0.9}}}, {"a/b", 1}};
  EXPECT_EQ(metrics.get<double>("eval/accuracy"), 0.9);
  EXPECT_EQ(metrics.get<int>("a/b"), 1);
  EXPECT_EQ(metrics.find("eval/loss"), nullptr);
  EXPECT_EQ(metrics.find(""), nullptr);
}

TEST(Dictionary, ErrorsNameKeyWantedAndGot) {
  const Config config = {{"data", "./data"}, {"rate", 0.5}, {"large", 300}};
  EXPECT_EQ(message_of([&] { config.get<int64_t>("data"); }), R"("data" is the string "./data"; wanted an integer)");
  EXPECT_EQ(message_of([&] { config.get<int64_t>("rate"); }), R"("rate" is the number 0.5; wanted an integer)");
  EXPECT_THAT(message_of([&] { config.get<int8_t>("large"); }), testing::HasSubstr("in the range"));
  EXPECT_THAT(message_of([&] { config.get<int64_t>("epochs"); }),
              testing::HasSubstr(R"("epochs" is not there; there is: data, large, rate.)"));
}

}  // namespace
}  // namespace paceline
