// LeavingNotice: SIGUSR1 says that the machine of this process will be taken away, and the run's controller is told.
//
// In two minutes, or in as many seconds as the signal's value says (sigqueue). It hears the signal on a thread of its
// own, from its construction until its destruction. Thread-safe.
#pragma once

#include <mutex>
#include <optional>
#include <thread>

#include "paceline/agent/agent.h"
#include "paceline/core/posix/descriptor.h"

namespace paceline::cli {

class LeavingNotice {
 public:
  /// Blocks SIGUSR1 in this thread and those that it starts later.
  LeavingNotice();
  ~LeavingNotice();
  LeavingNotice(const LeavingNotice&) = delete;

  /// Who tells the controller; of a signal that has come already too. Null: nobody does.
  void tell_through(agent::Agent* agent);

 private:
  void hear();

  std::mutex mutex_;
  agent::Agent* agent_ = nullptr;
  std::optional<double> seconds_;  // said before there was an agent
  Descriptor signals_;
  Descriptor end_;
  std::thread thread_;
};

}  // namespace paceline::cli
