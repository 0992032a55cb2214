// Where time comes from: every decision receives `now` from a Clock, so that tests own time.
//
// Time counts nanoseconds since the Unix epoch. SystemClock starts at the wall clock and then advances with the
// monotonic clock: within one process it never jumps, whatever happens to the wall clock. All are thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

namespace paceline {

using Duration = std::chrono::nanoseconds;
using Time = std::chrono::sys_time<Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() const = 0;
};

class SystemClock final : public Clock {
 public:
  SystemClock();
  Time now() const override;

 private:
  Time wall_start_;
  std::chrono::steady_clock::time_point steady_start_;
};

/// A clock that stands still until told: the reference for tests.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Time start = Time{}) : nanoseconds_(start.time_since_epoch().count()) {}
  Time now() const override { return Time{Duration{nanoseconds_.load()}}; }
  void advance(Duration by) { nanoseconds_ += by.count(); }

 private:
  std::atomic<int64_t> nanoseconds_;
};

/// Seconds since the Unix epoch, as files store them.
double to_seconds(Time time);
Time from_seconds(double seconds);

/// "2026-11-21T08:05:09.123Z": UTC, milliseconds.
std::string to_string(Time time);

}  // namespace paceline
