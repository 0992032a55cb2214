// Unix sockets: their address, and who may connect to one of ours.
#pragma once

#include <arrow/result.h>
#include <sys/un.h>

#include <string>

namespace paceline {

/// The address of the socket at `path`. IOError when the path is longer than such an address can be (107 bytes).
arrow::Result<sockaddr_un> unix_address(const std::string& path);

/// Whether who has connected to `socket` may speak to us: a process of our own user, or of root, who can do more than
/// any message of ours asks for, and as whom a user's programs may have been started (sudo).
bool may_connect(int socket);

}  // namespace paceline
