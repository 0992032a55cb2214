#include "paceline/track/series.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace paceline::track {
namespace {

TEST(Series, KeepsFewValuesAsTheyAre) {
  Series series;
  series.add(1, 0.5);
  series.add(2, 0.25);
  ASSERT_EQ(series.points().size(), 2u);
  EXPECT_EQ(series.points()[1], (SeriesPoint{2, 0.25, 0.25, 0.25}));
}

TEST(Series, ManyValuesKeepTheirExtremes) {
  Series series;
  constexpr int64_t kValues = 100'000;
  for (int64_t report = 1; report <= kValues; ++report) {
    series.add(report, report == 77'777 ? 1e9 : std::sin(static_cast<double>(report)));
  }
  EXPECT_LE(series.points().size(), Series::kMostPoints);
  EXPECT_GT(series.points().size(), Series::kMostPoints / 4);
  EXPECT_EQ(series.count(), kValues);
  EXPECT_EQ(series.points().back().report, kValues);
  double greatest = 0;
  int64_t report = 0;
  for (const SeriesPoint& point : series.points()) {
    EXPECT_GT(point.report, report);
    EXPECT_LE(point.min, point.max);
    report = point.report;
    greatest = std::max(greatest, point.max);
  }
  EXPECT_EQ(greatest, 1e9) << "one value that stands out is not lost";
}

TEST(Series, NotANumberIsNoExtreme) {
  Series series;
  for (size_t i = 0; i <= Series::kMostPoints; ++i) {
    series.add(static_cast<int64_t>(i), i == 1 ? std::numeric_limits<double>::quiet_NaN() : 2.0);
  }
  EXPECT_EQ(series.points()[0].max, 2.0);
  EXPECT_TRUE(std::isnan(series.points()[0].last));
}

TEST(Series, GoesOnFromItsJson) {
  Series whole, half;
  for (int64_t report = 1; report <= 700; ++report) whole.add(report, static_cast<double>(report % 7));
  for (int64_t report = 1; report <= 600; ++report) half.add(report, static_cast<double>(report % 7));
  Series continued = Json(half).get<Series>();
  for (int64_t report = 601; report <= 700; ++report) continued.add(report, static_cast<double>(report % 7));
  EXPECT_EQ(continued, whole);
}

}  // namespace
}  // namespace paceline::track
