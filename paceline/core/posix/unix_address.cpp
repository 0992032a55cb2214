#include "paceline/core/posix/unix_address.h"

#include <sys/socket.h>
#include <unistd.h>

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

bool may_connect(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

}  // namespace paceline
