#include "paceline/core/clock.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using namespace std::chrono_literals;

TEST(Clock, ManualClockMovesOnlyWhenTold) {
  ManualClock clock(from_seconds(100));
  EXPECT_EQ(to_seconds(clock.now()), 100);
  clock.advance(250ms);
  EXPECT_EQ(to_seconds(clock.now()), 100.25);
}

TEST(Clock, SettingTheWallClockDoesNotMoveTheMonotonicOne) {
  ManualClock clock(from_seconds(100));
  clock.set_wall(-1h);
  clock.advance(2s);
  EXPECT_EQ(clock.monotonic(), 2s);
  EXPECT_EQ(to_seconds(clock.now()), 100 - 3600 + 2);
}

TEST(Clock, SystemClockIsNearTheWallClockAndNeverGoesBack) {
  SystemClock clock;
  const Time first = clock.now();
  EXPECT_LT(std::chrono::abs(first - std::chrono::system_clock::now()), 5s);
  EXPECT_GE(clock.now(), first);
}

TEST(Clock, WritesUtcWithMilliseconds) {
  EXPECT_EQ(to_string(Time{0ns}), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(to_string(Time{1795248309123ms}), "2026-11-21T08:05:09.123Z");
}

}  // namespace
}  // namespace paceline
