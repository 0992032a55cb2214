// StopSignal: asks a run to stop; StopHandlers: by the signals that the process gets.
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/ending.h"
#include "paceline/core/posix/descriptor.h"

namespace paceline::controller {

/// Asks a run to stop, from a signal handler or another thread. `stop` is cheap and async-signal-safe.
class StopSignal {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kSameRequest{1};

  StopSignal();
  /// First call: clean stop. Third call: the controller kills at once. `signal` is the one that asks, which programs
  /// under `paceline run` get too.
  void stop(int signal = SIGINT) noexcept { stop(signal, 1); }
  /// What a signal's handler does at `now`: stop(). A second SIGTERM counts for the third: who sends it (Slurm,
  /// Kubernetes, systemd) sends SIGKILL next. But SIGTERM or SIGHUP again within kSameRequest is the same request, as
  /// `timeout` and closed terminals tell the process and then its group. Should the controller hang, in a user's
  /// callback or on a dead disk, the one that comes after the third ends this process as it would have without a
  /// handler; the guardian then ends the workers.
  void hear(int signal, Moment now = std::chrono::steady_clock::now()) noexcept;
  int descriptor() const { return event_.get(); }
  /// That of the last call; SIGINT while there was none.
  int signal() const noexcept { return signal_; }
  /// What it is as the end of a run: SIGTERM, SIGHUP and SIGUSR1, with which Slurm says that a job's time is over soon,
  /// are `terminated`, every other an `interrupt`.
  StopCause cause() const noexcept {
    return ends(signal_) || signal_ == SIGUSR1 ? StopCause::terminated : StopCause::interrupt;
  }
  /// Why, where its cause does not say it; otherwise "".
  std::string reason() const {
    if (signal_ == SIGUSR1) return "the driver got SIGUSR1: the time of its Slurm job is over soon";
    return signal_ == SIGHUP ? "the driver got SIGHUP: its terminal was closed" : "";
  }

 private:
  static bool ends(int signal) noexcept { return signal == SIGTERM || signal == SIGHUP; }
  void stop(int signal, int times) noexcept;

  static constexpr int kHeard = 3;
  Descriptor event_;  // an eventfd
  std::atomic<int> heard_{0};
  std::atomic<Moment> last_end_{Moment()};  // when hear() last counted SIGTERM or SIGHUP, if nothing else since
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

  /// From here on the next of these signals ends the process, also when its threads are in system calls that a handler
  /// would have to wait for: of a hung NFS server, say. From any thread; nothing where no StopHandlers live.
  static void let_end() noexcept;

 private:
  static void on_signal(int signal) { stop_->hear(signal); }
  void hear(int signal, bool unless_handled);

  static inline StopSignal* stop_ = nullptr;
  std::vector<std::pair<int, struct sigaction>> former_;
};

}  // namespace paceline::controller
