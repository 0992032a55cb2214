#include "paceline/plot/axis.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace paceline::plot {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> labels(double low, double high, int most) {
  std::vector<std::string> labels;
  for (const Tick& tick : ticks({low, high}, most)) labels.push_back(tick.label);
  return labels;
}

TEST(Axis, TicksAreRound) {
  EXPECT_THAT(labels(0, 1, 6), ElementsAre("0.0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_THAT(labels(0.013, 2.31, 5), ElementsAre("1", "2"));
  EXPECT_THAT(labels(-3, 12, 4), ElementsAre("0", "5", "10"));
  EXPECT_THAT(labels(100, 1'000, 3), ElementsAre("500", "1000"));
  EXPECT_THAT(labels(1e-7, 3e-7, 3), ElementsAre("1e-07", "2e-07", "3e-07"));
  EXPECT_THAT(labels(0, 4e9, 3), ElementsAre("0e+00", "2e+09", "4e+09"));
}

TEST(Axis, ARangeIsNeverEmpty) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(range_of({}), (Range{0, 1}));
  EXPECT_EQ(range_of({nan, HUGE_VAL}), (Range{0, 1}));
  EXPECT_EQ(range_of({4, nan, 4}), (Range{2, 6}));
  EXPECT_EQ(range_of({0}), (Range{-1, 1}));
  EXPECT_EQ(range_of({3, -1, 2}), (Range{-1, 3}));
}

}  // namespace
}  // namespace paceline::plot
