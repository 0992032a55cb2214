#include "paceline/core/clock.h"

#include <cmath>
#include <cstdio>
#include <ctime>

namespace paceline {

SystemClock::SystemClock()
    : wall_start_(std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now())),
      steady_start_(std::chrono::steady_clock::now()) {}

Time SystemClock::now() const {
  return wall_start_ + std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - steady_start_);
}

Duration SystemClock::monotonic() const {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
}

double to_seconds(Time time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

Time from_seconds(double seconds) {
  return Time{Duration{std::llround(seconds * 1e9)}};
}

std::string to_string(Time time) {
  const auto milliseconds = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = milliseconds / 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[64];
  const size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text + length, sizeof text - length, ".%03dZ", static_cast<int>(milliseconds % 1000));
  return text;
}

}  // namespace paceline
