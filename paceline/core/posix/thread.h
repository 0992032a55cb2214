// Threads of Paceline: they block every signal, so that the user's handlers run on the user's threads only.
#pragma once

#include <chrono>
#include <csignal>
#include <future>
#include <thread>
#include <utility>

namespace paceline {

/// While it exists, the calling thread has every signal blocked; threads that it starts inherit that.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

/// Starts a thread that runs `function` with every signal blocked from its first instruction on. Throws
/// std::system_error where the system has no room for a thread.
template <class Function>
std::thread start_thread(Function function) {
  const BlockedSignals blocked;
  return std::thread(std::move(function));
}

/// BackgroundThread: a thread whose work may hang, on a dead disk or a server that does not answer. Its owner joins it
/// if it ends in time, and otherwise detaches it and goes on.
///
/// A detached thread may outlive its owner and everything else, so the function must own all that it touches; what it
/// shares with its owner usually stands in a `Desk` of both, behind a shared_ptr and a mutex. Asking the thread to end
/// is the owner's business. Threading: one thread at a time.
class BackgroundThread {
 public:
  using Clock = std::chrono::steady_clock;

  /// No thread.
  BackgroundThread() = default;
  template <class Function>
  explicit BackgroundThread(Function function) {
    std::promise<void> ended;
    ended_ = ended.get_future();
    thread_ = start_thread([function = std::move(function), ended = std::move(ended)]() mutable {
      function();
      ended.set_value();
    });
  }
  BackgroundThread(BackgroundThread&&) = default;
  BackgroundThread& operator=(BackgroundThread&&) = default;
  /// Detaches the thread unless it has been joined.
  ~BackgroundThread();

  /// Whether the function has returned by `deadline`; waits for that until then. True when there is no thread.
  bool wait_until(Clock::time_point deadline) const;
  /// Joins the thread when its function returns by `deadline` and gives true, as it does when there is no thread (any
  /// more); otherwise detaches it.
  bool finish_by(Clock::time_point deadline);
  /// As finish_by(), from now.
  bool finish(Clock::duration patience) { return finish_by(Clock::now() + patience); }
  /// Detaches the thread, if there is one.
  void detach();

 private:
  std::future<void> ended_;
  std::thread thread_;
};

}  // namespace paceline
