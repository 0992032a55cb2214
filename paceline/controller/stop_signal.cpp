#include "paceline/controller/stop_signal.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace paceline::controller {

StopSignal::StopSignal() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void StopSignal::stop(int signal, int times) noexcept {
  const int error = errno;  // a signal handler leaves it as it was
  signal_ = signal;
  const auto count = static_cast<uint64_t>(times);
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &count, sizeof count);
  errno = error;
}

void StopSignal::hear(int signal, Moment now) noexcept {
  // Other threads may be hearing the same request at this moment.
  Moment last = last_end_;
  do {
    if (ends(signal) && last != Moment() && now - last < kSameRequest) return;
  } while (!last_end_.compare_exchange_weak(last, ends(signal) ? now : Moment()));
  int before = heard_;
  int times = 0;
  do {
    times = signal == SIGTERM && before > 0 && before < kHeard ? kHeard - before : 1;
  } while (!heard_.compare_exchange_weak(before, before + times));
  stop(signal, times);
  if (before < kHeard) return;
  std::signal(signal, SIG_DFL);
  ::raise(signal);  // comes when the handler is left
}

StopHandlers::StopHandlers(StopSignal& stop, const std::vector<int>& signals, const std::vector<int>& unless_handled) {
  stop_ = &stop;
  for (const int signal : signals) hear(signal, false);
  for (const int signal : unless_handled) hear(signal, true);
}

StopHandlers::~StopHandlers() {
  for (const auto& [signal, former] : former_) ::sigaction(signal, &former, nullptr);
  stop_ = nullptr;
}

void StopHandlers::let_end() noexcept {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now{};
    ::sigaction(signal, nullptr, &now);
    if (now.sa_handler == &on_signal) std::signal(signal, SIG_DFL);
  }
}

void StopHandlers::hear(int signal, bool unless_handled) {
  struct sigaction former{};
  ::sigaction(signal, nullptr, &former);
  if (unless_handled && former.sa_handler != SIG_DFL) return;
  struct sigaction action{};
  action.sa_handler = &on_signal;
  action.sa_flags = SA_RESTART;
  former_.emplace_back(signal, former);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace paceline::controller
