#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <utility>

#include "paceline/controller/inbox.h"
#include "paceline/core/posix/thread.h"
#include "paceline/train/in_process/interrupt_internal.h"

namespace paceline::train {

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
