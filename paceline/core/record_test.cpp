#include "paceline/core/record.h"

#include <gtest/gtest.h>

#include <string>

namespace paceline {
namespace {

#define SAMPLE_FIELDS(FIELD)       \
  FIELD(int64_t, count, 3)         \
  FIELD(std::string, name, "none") \
  FIELD(std::optional<double>, score, std::nullopt)
PACELINE_RECORD(Sample, SAMPLE_FIELDS);

TEST(Record, RoundTrips) {
  const Sample sample{.count = 5, .name = "five", .score = 0.25};
  EXPECT_EQ(nlohmann::json(sample).get<Sample>(), sample);
  EXPECT_EQ(nlohmann::json(Sample{}).get<Sample>(), Sample{});
}

TEST(Record, IgnoresUnknownAndKeepsDefaultsForAbsentAndNullFields) {
  const auto json = nlohmann::json::parse(R"({"count": 9, "name": null, "later": [1, 2]})");
  EXPECT_EQ(json.get<Sample>(), (Sample{.count = 9, .name = "none"}));
}

TEST(Record, RefusesAnotherType) {
  EXPECT_THROW(nlohmann::json::parse(R"({"count": "many"})").get<Sample>(), nlohmann::json::exception);
}

}  // namespace
}  // namespace paceline
