#include "paceline/core/posix/pidfd.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace paceline {

arrow::Result<Descriptor> open_pidfd(pid_t pid) {
  const long number = ::syscall(SYS_pidfd_open, pid, 0);
  if (number < 0) return errno_status("opening process " + std::to_string(pid));
  return Descriptor(static_cast<int>(number));
}

}  // namespace paceline
