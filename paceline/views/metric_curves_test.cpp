// Curves of whole histories, against the plainest way to make them.
#include "paceline/views/metric_curves.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "paceline/testing/temporary_folder.h"
#include "paceline/track/metrics_history.h"

namespace paceline::views {
namespace {

using ::testing::ElementsAre;

struct Value {
  int64_t report;
  double value;
};

// Point by point, each from the values that belong to it.
Curve plain_curve(const std::vector<Value>& values, const CurveRange& range) {
  std::vector<Value> chosen;
  for (const Value& value : values) {
    if (value.report >= range.from && value.report <= range.to) chosen.push_back(value);
  }
  const size_t points = std::min(range.points, chosen.size());
  Curve curve;
  for (size_t point = 0; point < points; ++point) {
    double least = INFINITY, greatest = -INFINITY;
    const Value* last = nullptr;
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (i < point * chosen.size() / points || i >= (point + 1) * chosen.size() / points) continue;
      least = std::min(least, chosen[i].value);
      greatest = std::max(greatest, chosen[i].value);
      last = &chosen[i];
    }
    curve.report.push_back(last->report);
    curve.time.push_back(static_cast<double>(last->report) / 8);
    curve.min.push_back(least);
    curve.max.push_back(greatest);
    curve.last.push_back(last->value);
  }
  return curve;
}

TEST(MetricCurves, AreThoseOfThePlainWay) {
  const testing::TemporaryFolder folder;
  auto history = track::HistoryWriter::open(folder.path()).ValueOrDie();
  MetricCurves curves(folder.path());
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed): the same curves every time
  std::vector<Value> values;
  for (int64_t report = 1; report <= 3000; ++report) {
    const double value = std::uniform_real_distribution<>(-1, 1)(random);
    Json metrics = {{"eval", {{"accuracy", 0.5}}}, {"note", "text"}};
    if (random() % 5 != 0) {
      metrics["loss"] = value;
      values.push_back({report, value});
    }
    const double time = static_cast<double>(report) / 8;
    ASSERT_TRUE(history.append({.report = report, .time = time, .metrics = metrics}).ok());
    ASSERT_TRUE(history.append({.report = report, .rank = 1, .time = time, .metrics = {{"loss", 9}}}).ok());
    if (report % 1000 != 0) continue;
    ASSERT_TRUE(history.flush().ok());
    ASSERT_TRUE(curves.read().ok());
    for (const CurveRange& range : {CurveRange{},
                                    {.points = 1},
                                    {.points = 7},
                                    {.from = 100, .to = 257},
                                    {.from = 100, .to = 900, .points = 33},
                                    {.from = 9000},
                                    {.points = 5000}}) {
      EXPECT_EQ(curves.curve("loss", range), plain_curve(values, range)) << range.points << " " << range.from;
    }
  }
  EXPECT_THAT(curves.names(), ElementsAre("eval/accuracy", "loss"));
  EXPECT_TRUE(curves.curve("note", {}).last.empty());
}

// Some threads read it, each a part.
TEST(MetricCurves, OfALongHistoryAreTheSame) {
  const testing::TemporaryFolder folder;
  auto history = track::HistoryWriter::open(folder.path()).ValueOrDie();
  std::vector<Value> values;
  MetricCurves curves(folder.path());
  const std::string note(300, 'n');
  for (int64_t report = 1; report <= 80'000; ++report) {
    values.push_back({report, std::sin(static_cast<double>(report))});
    Json metrics = {{"loss", values.back().value}, {"note", note}};
    if (report == 70'000) metrics["late"] = 1;
    ASSERT_TRUE(history.append({.report = report, .time = static_cast<double>(report) / 8, .metrics = metrics}).ok());
    if (report != 60'000) continue;
    ASSERT_TRUE(history.flush().ok());
    ASSERT_TRUE(curves.read().ok());
    EXPECT_EQ(curves.size(), 60'000u);
  }
  ASSERT_TRUE(history.flush().ok());
  std::filesystem::resize_file(track::history_path(folder.path()),
                               std::filesystem::file_size(track::history_path(folder.path())) - 1);  // torn
  ASSERT_TRUE(curves.read().ok());
  values.pop_back();
  EXPECT_EQ(curves.curve("loss", {.points = 50}), plain_curve(values, {.points = 50}));
  EXPECT_THAT(curves.curve("late", {}).report, ElementsAre(70'000));
  EXPECT_EQ(curves.size(), 80'000u);
  std::ofstream(track::history_path(folder.path()), std::ios::app) << "\n";
  ASSERT_TRUE(curves.read().ok());
  EXPECT_EQ(curves.size(), 80'001u);
}

TEST(MetricCurves, WhatIsNotFiniteIsSaid) {
  const testing::TemporaryFolder folder;
  auto history = track::HistoryWriter::open(folder.path()).ValueOrDie();
  int64_t report = 0;
  for (const double value : {1.0, std::nan(""), -HUGE_VAL, std::nan(""), std::nan("")}) {
    ASSERT_TRUE(history.append({.report = ++report, .metrics = {{"loss", value}}}).ok());
  }
  ASSERT_TRUE(history.flush().ok());
  MetricCurves curves(folder.path());
  ASSERT_TRUE(curves.read().ok());
  const Json curve = curve_json(curves.curve("loss", {.points = 2}));
  EXPECT_EQ(curve["min"], Json({1.0, "-Infinity"}));
  EXPECT_EQ(curve["max"], Json({1.0, "-Infinity"}));
  EXPECT_EQ(curve["last"], Json({"NaN", "NaN"}));
  EXPECT_EQ(curve["report"], Json({2, 5}));
}

TEST(MetricCurves, ARunThatBeginsAnewHasNewCurves) {
  const testing::TemporaryFolder folder;
  MetricCurves curves(folder.path());
  for (const double value : {1.0, 2.0}) {
    std::filesystem::remove(track::history_path(folder.path()));
    auto history = track::HistoryWriter::open(folder.path()).ValueOrDie();
    ASSERT_TRUE(history.append({.report = 1, .metrics = {{"loss", value}}}).ok());
    ASSERT_TRUE(history.flush().ok());
    ASSERT_TRUE(curves.read().ok());
    EXPECT_THAT(curves.curve("loss", {}).last, ElementsAre(value));
  }
}

}  // namespace
}  // namespace paceline::views
