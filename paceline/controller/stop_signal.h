// StopSignal: asks a run to stop; StopHandlers: by the signals that the process gets.
#pragma once

#include <atomic>
#include <csignal>
#include <utility>
#include <vector>

#include "paceline/core/ending.h"
#include "paceline/core/posix/descriptor.h"

namespace paceline::controller {

/// Asks a run to stop, from a signal handler or another thread. `stop` is cheap and async-signal-safe.
class StopSignal {
 public:
  StopSignal();
  /// First call: clean stop. Third call: the controller kills at once. `signal` is the one that asks, which programs
  /// under `paceline run` get too.
  void stop(int signal = SIGINT) noexcept { stop(signal, 1); }
  /// What a signal's handler does: stop(). A second SIGTERM counts for the third: who sends it (Slurm, Kubernetes,
  /// systemd) sends SIGKILL next. Should the controller hang, in a user's callback or on a dead disk, the one that
  /// comes after the third ends this process as it would have without a handler; the guardian then ends the workers.
  void hear(int signal) noexcept;
  int descriptor() const { return event_.get(); }
  /// That of the last call; SIGINT while there was none.
  int signal() const noexcept { return signal_; }
  /// What it is as the end of a run: SIGTERM is `terminated`, every other an `interrupt`.
  StopCause cause() const noexcept { return signal_ == SIGTERM ? StopCause::terminated : StopCause::interrupt; }

 private:
  void stop(int signal, int times) noexcept;

  static constexpr int kHeard = 3;
  Descriptor event_;  // an eventfd
  std::atomic<int> heard_{0};
  std::atomic<int> signal_{SIGINT};
};

/// While it lives, `signals` go to `stop` (StopSignal::hear), and those of `unless_handled` too where their default
/// action stands: neither the program says what becomes of them nor who started it (nohup). The former handlers come
/// back afterwards. One at a time in a process.
class StopHandlers {
 public:
  StopHandlers(StopSignal& stop, const std::vector<int>& signals, const std::vector<int>& unless_handled = {});
  ~StopHandlers();
  StopHandlers(const StopHandlers&) = delete;
  StopHandlers& operator=(const StopHandlers&) = delete;

 private:
  void hear(int signal, bool unless_handled);

  static inline StopSignal* stop_ = nullptr;
  std::vector<std::pair<int, struct sigaction>> former_;
};

}  // namespace paceline::controller
