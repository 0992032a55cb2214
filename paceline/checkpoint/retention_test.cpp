#include "paceline/checkpoint/retention.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace paceline::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

CheckpointConfig keep(int64_t count, const std::string& score = "", const std::string& order = "max") {
  CheckpointConfig config{.num_to_keep = count, .checkpoint_score_order = order};
  if (!score.empty()) config.checkpoint_score_attribute = score;
  return config;
}

std::vector<int64_t> reports_of(const PublishedCheckpoints& checkpoints) {
  std::vector<int64_t> reports;
  for (const PublishedCheckpoint& checkpoint : checkpoints) reports.push_back(checkpoint.report);
  return reports;
}

TEST(Retention, KeepsTheNewestWithoutAScore) {
  const PublishedCheckpoints checkpoints = {{.report = 3}, {.report = 1}, {.report = 2}};
  EXPECT_THAT(superseded(checkpoints, keep(2)), ElementsAre(1));
  EXPECT_THAT(superseded(checkpoints, CheckpointConfig{}), IsEmpty());
  EXPECT_THAT(superseded({}, keep(1)), IsEmpty());
}

TEST(Retention, KeepsTheBestAndTheLatest) {
  const PublishedCheckpoints checkpoints = {
      {.report = 1, .metrics = {{"eval", {{"loss", 0.1}}}}},
      {.report = 2, .metrics = {{"eval", {{"loss", 0.3}}}}},
      {.report = 3, .metrics = {{"eval", {{"loss", 0.2}}}}},
      {.report = 4, .metrics = {{"eval", {{"loss", 0.9}}}}},
  };
  EXPECT_THAT(reports_of(worst_first(checkpoints, keep(1, "eval/loss", "min"))), ElementsAre(4, 2, 3, 1));
  EXPECT_THAT(superseded(checkpoints, keep(1, "eval/loss", "min")), ElementsAre(2, 3));
  EXPECT_THAT(superseded(checkpoints, keep(1, "eval/loss", "max")), ElementsAre(1, 2, 3));
}

TEST(Retention, OrdersNanMissingTiesAndInfinities) {
  const PublishedCheckpoints checkpoints = {
      {.report = 1, .metrics = {{"s", 1}}},
      {.report = 2, .metrics = {{"s", 1.0}}},
      {.report = 3, .metrics = {{"s", std::nan("")}}},
      {.report = 4},
      {.report = 5, .metrics = {{"s", -kInfinity}}},
      {.report = 6, .metrics = {{"s", kInfinity}}},
      {.report = 7, .metrics = {{"s", "high"}}},
      {.report = 8, .metrics = {{"s", {1}}}},
  };
  EXPECT_THAT(reports_of(worst_first(checkpoints, keep(1, "s"))), ElementsAre(3, 4, 5, 7, 8, 1, 2, 6));
  EXPECT_THAT(reports_of(worst_first(checkpoints, keep(1, "s", "min"))), ElementsAre(3, 4, 6, 7, 8, 1, 2, 5));
}

TEST(Retention, KeepsTheBestOfEveryKindOfNumber) {
  const auto kept_of = [](const std::vector<Json>& scores) {
    PublishedCheckpoints checkpoints;
    for (const Json& score : scores)
      checkpoints.push_back({.report = std::ssize(checkpoints), .metrics = {{"s", score}}});
    return reports_of(worst_first(checkpoints, keep(2, "s")));
  };
  EXPECT_THAT(kept_of({true, false, false, false}), ElementsAre(1, 2, 3, 0));
  EXPECT_THAT(kept_of({Json{"$decimal", "0.3"}, Json{"$decimal", "0.1"}, Json{"$fraction", "1/5"}}),
              ElementsAre(1, 2, 0));
  EXPECT_THAT(kept_of({Json{"$int", "2361183241434822606848"}, Json{"$int", "1180591620717411303424"}, 5}),
              ElementsAre(2, 1, 0));
}

TEST(Retention, KnowsAScoreThatIsNoNumber) {
  const CheckpointConfig config = keep(1, "s");
  EXPECT_TRUE(has_unusable_score({.report = 1, .metrics = {{"s", "high"}}}, config));
  EXPECT_FALSE(has_unusable_score({.report = 1, .metrics = {{"s", false}}}, config));
  EXPECT_FALSE(has_unusable_score({.report = 1, .metrics = {{"s", std::nan("")}}}, config));
  EXPECT_FALSE(has_unusable_score({.report = 1, .metrics = {{"other", "high"}}}, config));
  EXPECT_FALSE(has_unusable_score({.report = 1, .metrics = {{"s", "high"}}}, keep(1)));
}

TEST(Retention, KeepsWhatIsToBeValidated) {
  const PublishedCheckpoints checkpoints = {
      {.report = 1, .status = CheckpointStatus::pending_validation}, {.report = 2}, {.report = 3}};
  EXPECT_THAT(superseded(checkpoints, keep(1)), ElementsAre(2));
}

// The header's order, written as a comparison of two.
bool is_better(const PublishedCheckpoint& a, const PublishedCheckpoint& b, bool low_is_better) {
  const auto score = [&](const PublishedCheckpoint& checkpoint) {
    if (!checkpoint.metrics.contains("s") || !checkpoint.metrics["s"].is_number()) return -kInfinity;
    return checkpoint.metrics["s"].get<double>() * (low_is_better ? -1 : 1);
  };
  const double x = score(a);
  const double y = score(b);
  if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
  if (!std::isnan(x) && x != y) return x > y;
  return a.report > b.report;
}

TEST(Retention, AgreesWithANaiveOracle) {
  std::mt19937 random(11);
  const std::vector<Json> scores = {0, 1, 2, 0.5, -1, kInfinity, -kInfinity, std::nan(""), "text", nullptr};
  for (int round = 0; round < 1000; ++round) {
    PublishedCheckpoints checkpoints;
    for (int64_t report = 0, count = static_cast<int64_t>(random() % 9); report < count; ++report) {
      checkpoints.push_back({.report = report, .metrics = Json::object()});
      if (random() % 5 != 0) checkpoints.back().metrics["s"] = scores[random() % scores.size()];
    }
    std::shuffle(checkpoints.begin(), checkpoints.end(), random);
    const bool low = random() % 2 == 0;
    const CheckpointConfig config = keep(static_cast<int64_t>(1 + random() % 4), "s", low ? "min" : "max");
    std::vector<int64_t> wanted;
    for (const PublishedCheckpoint& checkpoint : checkpoints) {
      int64_t better = 0;
      bool latest = true;
      for (const PublishedCheckpoint& other : checkpoints) {
        better += is_better(other, checkpoint, low) ? 1 : 0;
        latest = latest && other.report <= checkpoint.report;
      }
      if (better >= *config.num_to_keep && !latest) wanted.push_back(checkpoint.report);
    }
    std::sort(wanted.begin(), wanted.end());
    EXPECT_EQ(superseded(checkpoints, config), wanted);
  }
}

}  // namespace
}  // namespace paceline::checkpoint
