// Where time comes from: every decision receives `now` from a Clock, so that tests control time.
//
// Time counts nanoseconds since the Unix epoch. SystemClock starts at the wall clock and then advances with the
// monotonic clock: within one process it never jumps, whatever happens to the wall clock. The wall clock may be set
// between the readings of two processes: compare those by monotonic() only. All are thread-safe.
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
  /// Time since a moment that all processes of the machine share; it is never set and never goes back.
  virtual Duration monotonic() const = 0;
};

class SystemClock final : public Clock {
 public:
  SystemClock();
  Time now() const override;
  Duration monotonic() const override;

 private:
  Time wall_start_;
  std::chrono::steady_clock::time_point steady_start_;
};

/// A clock that stands still until told: the reference for tests.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Time start = Time{}) : start_(start.time_since_epoch().count()) {}
  Time now() const override { return Time{Duration{start_ + passed_}}; }
  Duration monotonic() const override { return Duration{passed_}; }
  void advance(Duration by) { passed_ += by.count(); }
  /// Somebody sets the wall clock.
  void set_wall(Duration by) { start_ += by.count(); }

 private:
  std::atomic<int64_t> start_;
  std::atomic<int64_t> passed_{0};
};

/// Seconds since the Unix epoch, as files store them.
double to_seconds(Time time);
Time from_seconds(double seconds);

/// "2026-11-21T08:05:09.123Z": UTC, milliseconds.
std::string to_string(Time time);

}  // namespace paceline
