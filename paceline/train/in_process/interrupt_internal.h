// Stop signals while a train loop runs in the calling process. Not for users.
#pragma once

#include <functional>
#include <thread>

#include "paceline/controller/stop_signal.h"
#include "paceline/core/posix/descriptor.h"

namespace paceline::train {

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
