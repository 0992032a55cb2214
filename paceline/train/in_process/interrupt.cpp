#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>

#include "paceline/controller/inbox.h"
#include "paceline/core/posix/thread.h"
#include "paceline/train/in_process/interrupt_internal.h"

namespace paceline::train {

InterruptGuard::InterruptGuard(controller::StopSignal& stop, bool hears_sigterm) {
  signal_ = &stop;
  struct sigaction action{};
  action.sa_handler = [](int number) { signal_->hear(number); };
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &former_);
  if (!hears_sigterm) return;
  ::sigaction(SIGTERM, nullptr, &former_sigterm_);
  hears_sigterm_ = former_sigterm_.sa_handler == SIG_DFL;
  if (hears_sigterm_) ::sigaction(SIGTERM, &action, nullptr);
}

InterruptGuard::~InterruptGuard() {
  ::sigaction(SIGINT, &former_, nullptr);
  if (hears_sigterm_) ::sigaction(SIGTERM, &former_sigterm_, nullptr);
  signal_ = nullptr;
}

InterruptWatch::InterruptWatch(controller::StopSignal& stop, std::function<void()> interrupted)
    : stop_(stop),
      interrupted_(std::move(interrupted)),
      ended_(::eventfd(0, EFD_CLOEXEC)),
      thread_(start_thread([this] { watch(); })) {}

InterruptWatch::~InterruptWatch() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(ended_.get(), &one, sizeof one);
  thread_.join();
}

void InterruptWatch::watch() {
  uint64_t count = 0;
  while (true) {
    std::array<pollfd, 2> waiting{pollfd{.fd = stop_.descriptor(), .events = POLLIN, .revents = 0},
                                  pollfd{.fd = ended_.get(), .events = POLLIN, .revents = 0}};
    if (::poll(waiting.data(), waiting.size(), -1) < 0) continue;
    if (waiting[1].revents != 0) return;
    const uint64_t before = count;
    count += controller::take_count(stop_.descriptor());
    if (before == 0 && count > 0) interrupted_();
    if (count < 3) continue;
    const int signal = stop_.signal();
    std::signal(signal, SIG_DFL);
    ::kill(::getpid(), signal);
  }
}

}  // namespace paceline::train
