#include "paceline/core/posix/descriptor.h"

#include <arrow/util/io_util.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace paceline {

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    number_ = std::exchange(other.number_, -1);
  }
  return *this;
}

void Descriptor::reset() {
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

arrow::Result<Descriptor> Descriptor::duplicate() const {
  const int copy = ::fcntl(number_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return errno_status("duplicating a descriptor");
  return Descriptor(copy);
}

arrow::Status errno_status(const std::string& what) {
  const int code = errno;
  return arrow::Status::IOError(what, ": ", std::generic_category().message(code))
      .WithDetail(arrow::internal::StatusDetailFromErrno(code));
}

}  // namespace paceline
