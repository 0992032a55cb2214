#include "paceline/plot/chart.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <sstream>

namespace paceline::plot {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Chart falling() {
  Chart chart{.title = "loss <a&b>", .x_title = "report", .points = {}};
  for (int x = 1; x <= 100; ++x) {
    const double y = 2.0 / x;
    chart.points.push_back({static_cast<double>(x), y, y, y});
  }
  return chart;
}

TEST(Chart, ATerminalShowsWhereTheCurveGoes) {
  const std::string text = draw_in_terminal(falling(), {.columns = 40, .rows = 10, .unicode = false});
  std::istringstream lines(text);
  std::string title, first, line;
  std::getline(lines, title);
  std::getline(lines, first);
  EXPECT_EQ(title, "loss <a&b>");
  EXPECT_THAT(first, StartsWith("2 +*")) << "it begins at the top";
  int count = 2;
  while (std::getline(lines, line)) {
    EXPECT_LE(line.size(), 40u);
    ++count;
  }
  EXPECT_EQ(count, 10);
  EXPECT_THAT(text, AllOf(HasSubstr("****"), HasSubstr("100"), HasSubstr("report")));
}

TEST(Chart, BrailleHasEightDotsToALetter) {
  const Chart chart{.title = "t", .x_title = "x", .points = {{0, 0, 0, 0}, {1, 1, 1, 1}}};
  const std::string text = draw_in_terminal(chart, {.columns = 20, .rows = 8, .unicode = true});
  EXPECT_THAT(text, AllOf(HasSubstr("┤"), HasSubstr("⡠"), Not(HasSubstr("*"))));
}

TEST(Chart, WhatIsNotFiniteIsLeftOut) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Chart& chart : {Chart{.title = "empty", .x_title = "", .points = {}},
                             Chart{.title = "nan", .x_title = "", .points = {{1, nan, nan, nan}, {2, HUGE_VAL, 0, 0}}},
                             Chart{.title = "one", .x_title = "", .points = {{1, 5, 5, 5}}}}) {
    EXPECT_THAT(draw_in_terminal(chart, {}), HasSubstr(chart.title));
    EXPECT_THAT(draw_svg(chart), AllOf(HasSubstr("</svg>"), Not(HasSubstr("nan,")), Not(HasSubstr("inf"))));
    EXPECT_TRUE(draw_png(chart).ok());
  }
}

TEST(Chart, AnSvgIsADocument) {
  const std::string svg = draw_svg(falling());
  EXPECT_THAT(svg,
              AllOf(StartsWith("<svg"), HasSubstr("<polyline"), HasSubstr("loss &lt;a&amp;b>"), HasSubstr("</svg>")));
}

TEST(Chart, APngHasItsSize) {
  const std::string png = draw_png(falling()).ValueOrDie();
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(png.substr(16, 8), std::string("\0\0\x06\x40\0\0\x03\x20", 8)) << "1600 x 800, big endian";
}

}  // namespace
}  // namespace paceline::plot
