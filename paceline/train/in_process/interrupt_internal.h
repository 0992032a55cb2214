// SIGINT (Ctrl-C) while fit() runs. Not for users.
#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

#include "paceline/controller/controller.h"
#include "paceline/core/posix/descriptor.h"

namespace paceline::train {

/// While it lives SIGINT goes to `stop`; the handler that was there comes back afterwards. One at a time in a process.
///
/// Whoever listens to `stop` ends the run at once when it comes for the third time. Should that thread hang, in a
/// user's callback or on a dead disk, the fourth ends the process as SIGINT would have; the guardian then ends the
/// workers.
class InterruptGuard {
 public:
  explicit InterruptGuard(controller::StopSignal& stop);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  static constexpr int kHeard = 3;
  static inline controller::StopSignal* signal_ = nullptr;
  static inline std::atomic<int> count_ = 0;
  struct sigaction former_{};
};

/// While it lives a thread of its own waits for `stop`, because the calling thread is busy with the train loop: the
/// first time it calls `interrupted`, the third time it ends the process as SIGINT would have.
class InterruptWatch {
 public:
  InterruptWatch(controller::StopSignal& stop, std::function<void()> interrupted);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

 private:
  void watch();

  controller::StopSignal& stop_;
  std::function<void()> interrupted_;
  Descriptor ended_;  // an eventfd
  std::thread thread_;
};

}  // namespace paceline::train
