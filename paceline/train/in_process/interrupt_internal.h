// SIGINT (Ctrl-C) and SIGTERM while fit() runs. Not for users.
#pragma once

#include <csignal>
#include <functional>
#include <thread>

#include "paceline/controller/controller.h"
#include "paceline/core/posix/descriptor.h"

namespace paceline::train {

/// While it lives SIGINT goes to `stop` (StopSignal::hear), and SIGTERM too where that is wanted and the user's program
/// has not said itself what becomes of it; the handlers that were there come back afterwards. One at a time in a
/// process.
class InterruptGuard {
 public:
  InterruptGuard(controller::StopSignal& stop, bool hears_sigterm);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  static inline controller::StopSignal* signal_ = nullptr;
  struct sigaction former_{};
  struct sigaction former_sigterm_{};
  bool hears_sigterm_ = false;
};

/// While it lives a thread of its own waits for `stop`, because the calling thread is busy with the train loop: the
/// first time it calls `interrupted`, the third time it ends the process as the signal would have.
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
  Descriptor ended_;    // an eventfd
  std::thread thread_;  // last: it uses the others
};

}  // namespace paceline::train
