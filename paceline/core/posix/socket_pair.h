// Connected Unix stream sockets, and bytes with descriptors over them (SCM_RIGHTS).
#pragma once

#include <arrow/result.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "paceline/core/posix/descriptor.h"

namespace paceline {

/// Two connected ends, closed on exec.
arrow::Result<std::pair<Descriptor, Descriptor>> make_socket_pair();

/// At most this many descriptors travel in one call.
inline constexpr size_t kMaxDescriptorsPerCall = 16;

/// Sends some of `bytes` (at least one) with all of `descriptors`. Returns how many bytes went; 0 when a non-blocking
/// socket is full (nothing went then, no descriptor either). The descriptors stay the caller's. A closed peer is an
/// IOError, never SIGPIPE.
arrow::Result<size_t> send_some(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors);

struct Received {
  size_t bytes = 0;                     // 0 with closed == false: nothing there now (non-blocking socket)
  bool closed = false;                  // the peer has closed its end
  std::vector<Descriptor> descriptors;  // closed on exec
};

/// Receives up to `buffer.size()` bytes.
arrow::Result<Received> receive_some(int socket, std::span<std::byte> buffer);

}  // namespace paceline
