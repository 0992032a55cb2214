// EndWatch: says what the end of a run waits for when that takes long: a disk that hangs, a store that does not answer.
//
// The thread that ends the run names each step before it takes it; it may then be stuck in a system call. A thread of
// the watch's own speaks instead.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace paceline::controller {

class EndWatch {
 public:
  using Clock = std::chrono::steady_clock;
  /// Gets the name of the step that takes long. It is called on the watch's thread, once a step.
  using TakesLong = std::function<void(const std::string& step)>;
  static constexpr std::chrono::seconds kPatience{3};

  explicit EndWatch(TakesLong takes_long, Clock::duration patience = kPatience);
  /// Waits for what `takes_long` is at.
  ~EndWatch();
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

  /// The step that is taken from here on; "" for none that anybody need know of. The same again changes nothing.
  void enter(std::string step);

 private:
  void watch();

  const TakesLong takes_long_;
  const Clock::duration patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string step_;
  Clock::time_point since_;
  bool is_said_ = false;  // of this step
  bool ending_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace paceline::controller
