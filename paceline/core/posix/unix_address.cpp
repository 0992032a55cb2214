#include "paceline/core/posix/unix_address.h"

#include <sys/socket.h>

namespace paceline {

arrow::Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return arrow::Status::IOError("the socket's path is too long: wanted at most ", sizeof address.sun_path - 1,
                                  " bytes, got ", path.size(), ": ", path);
  }
  path.copy(address.sun_path, path.size());
  return address;
}

}  // namespace paceline
