// The threads that many channels have in common: one that looks at their clocks, and as many writers as have to wait at
// the same time.
//
// A connection's write may wait for its peer, so a peer that does not read holds up one writer. Another starts as soon
// as work has waited for some milliseconds, and ends after a while without. So a thousand channels on which little
// happens need two threads, and each that is held up one more.
// Thread-safe. Owner: whoever makes channels; it calls stop() once none of them has a connection any more. Channels
// keep a reference and may outlive that.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "paceline/core/clock.h"

namespace paceline::transport {

/// Something that time happens to.
class Timed {
 public:
  virtual ~Timed() = default;
  /// Does what is due, without waiting for anything; gives when to look again, or nullopt: never.
  virtual std::optional<Time> look(Time now) = 0;
};

class SharedThreads {
 public:
  explicit SharedThreads(std::shared_ptr<const Clock> clock = std::make_shared<SystemClock>());
  /// Calls stop(). Not from one of the threads.
  ~SharedThreads();

  Time now() const { return clock_->now(); }
  /// Calls look() at `when`, and again as it says, while the object lives.
  void watch(std::weak_ptr<Timed> timed, Time when);
  /// Runs `task` on a thread, in the order of the calls but beside the others. False after stop(): it will not run.
  bool submit(std::function<void()> task);
  /// The clock has been moved: looks at it again. For a clock that does not run by itself.
  void wake();
  /// Runs what was submitted, then ends the threads. Waits for tasks: whatever they wait for has ended. Idempotent.
  void stop();

 private:
  void keep_time();
  void look_at_due(std::unique_lock<std::mutex>& lock);
  void relieve_writers();
  void write(std::list<std::thread>::iterator self);

  const std::shared_ptr<const Clock> clock_;
  std::mutex mutex_;
  bool stopping_ = false;

  std::condition_variable time_changed_;
  std::multimap<Time, std::weak_ptr<Timed>> due_;
  std::thread timer_;

  std::condition_variable work_changed_;
  std::deque<std::function<void()>> work_;
  size_t idle_ = 0;                                 // writers that wait for work, or have been woken for it
  size_t taken_ = 0;                                // how many tasks have been begun
  size_t taken_before_ = 0;                         // when the timer last saw one begin, and
  std::chrono::steady_clock::time_point progress_;  // when that was
  bool supervises_ = false;                         // the timer looks again soon, because work waits
  std::list<std::thread> writers_;
  std::list<std::thread> ended_;  // writers that nobody needs any more, to be joined
};

}  // namespace paceline::transport
