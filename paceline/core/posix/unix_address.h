// The address of a Unix socket.
#pragma once

#include <arrow/result.h>
#include <sys/un.h>

#include <string>

namespace paceline {

/// The address of the socket at `path`. IOError when the path is longer than such an address can be (107 bytes).
arrow::Result<sockaddr_un> unix_address(const std::string& path);

}  // namespace paceline
