#include <sys/eventfd.h>
#include <unistd.h>

#include "paceline/controller/controller.h"

namespace paceline::controller {

StopSignal::StopSignal() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void StopSignal::stop(int signal) noexcept {
  const int error = errno;  // a signal handler leaves it as it was
  signal_ = signal;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
  errno = error;
}

}  // namespace paceline::controller
