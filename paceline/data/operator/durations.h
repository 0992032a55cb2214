// How long something took, each time: what statistics say of it.
//
// Thread-safe. Those who read while others count see each number as it is at the time.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>

namespace paceline::data {

/// Durations, of which all are counted and none is kept: a histogram whose bounds are 2^(1/8) apart.
class Durations {
 public:
  void add(std::chrono::nanoseconds duration);

  std::chrono::nanoseconds sum() const { return std::chrono::nanoseconds(sum_); }
  std::chrono::nanoseconds longest() const { return std::chrono::nanoseconds(longest_); }
  /// 0 where there are none.
  std::chrono::nanoseconds shortest() const;
  /// What `share` of the durations do not exceed; at most 9 % above it. `share` is in (0, 1]. 0 where there are none.
  std::chrono::nanoseconds quantile(double share) const;

 private:
  static constexpr size_t kOfAnOctave = 8;
  static constexpr size_t kOctaves = 44;  // five hours

  std::atomic<int64_t> sum_ = 0;
  std::atomic<int64_t> longest_ = 0;
  std::atomic<int64_t> shortest_ = INT64_MAX;
  std::array<std::atomic<int64_t>, kOfAnOctave * kOctaves + 1> counts_ = {};
};

/// What is under way, and since when.
class UnderWay {
 public:
  using Clock = std::chrono::steady_clock;
  /// Something, until it goes.
  class One {
   public:
    explicit One(UnderWay& all);
    ~One();
    One(const One&) = delete;
    One& operator=(const One&) = delete;

   private:
    UnderWay& all_;
    std::multiset<Clock::time_point>::iterator place_;
  };

  int64_t count() const;
  /// Of the first to begin; 0 where there is none.
  Clock::duration longest() const;

 private:
  mutable std::mutex mutex_;
  std::multiset<Clock::time_point> begins_;
};

/// Counts how long this thread waits for others from here to the end of the scope. Whoever measures what the thread
/// does meanwhile takes that off.
///
///     const Waiting waiting;
///     changed.wait(lock, …);
class Waiting {
 public:
  ~Waiting() { of_this_thread_ += std::chrono::steady_clock::now() - since_; }
  Waiting() = default;
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  /// Since the thread began.
  static std::chrono::nanoseconds of_this_thread() { return of_this_thread_; }

 private:
  static thread_local std::chrono::nanoseconds of_this_thread_;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace paceline::data
