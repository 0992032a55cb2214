#include "paceline/core/posix/pidfd.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace paceline {

arrow::Result<Descriptor> open_pidfd(pid_t pid) {
  const long number = ::syscall(SYS_pidfd_open, pid, 0);
  if (number < 0) return errno_status("opening process " + std::to_string(pid));
  return Descriptor(static_cast<int>(number));
}

arrow::Status signal_process(const Descriptor& pidfd, int signal) {
  if (::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) == 0 || errno == ESRCH) {
    return arrow::Status::OK();
  }
  return errno_status("sending a signal");
}

}  // namespace paceline
