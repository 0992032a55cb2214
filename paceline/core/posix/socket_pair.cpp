#include "paceline/core/posix/socket_pair.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

namespace paceline {
namespace {

constexpr size_t kControlBytes = CMSG_SPACE(sizeof(int) * kMaxDescriptorsPerCall);

struct alignas(cmsghdr) ControlBuffer {
  char bytes[kControlBytes];
};

}  // namespace

arrow::Result<std::pair<Descriptor, Descriptor>> make_socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno_status("making a socket pair");
  return std::pair{Descriptor(ends[0]), Descriptor(ends[1])};
}

arrow::Result<size_t> send_some(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  if (descriptors.size() > kMaxDescriptorsPerCall) {
    return arrow::Status::Invalid("too many descriptors in one call: wanted at most ", kMaxDescriptorsPerCall, ", got ",
                                  descriptors.size());
  }
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  ControlBuffer control{};
  if (!descriptors.empty()) {
    header.msg_control = control.bytes;
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* message = CMSG_FIRSTHDR(&header);
    message->cmsg_level = SOL_SOCKET;
    message->cmsg_type = SCM_RIGHTS;
    message->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(message), descriptors.data(), descriptors.size_bytes());
  }
  while (true) {
    const ssize_t sent = ::sendmsg(socket, &header, MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<size_t>(sent);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
    return errno_status("sending on a socket");
  }
}

arrow::Result<Received> receive_some(int socket, std::span<std::byte> buffer) {
  iovec part{buffer.data(), buffer.size()};
  ControlBuffer control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes;
  header.msg_controllen = sizeof control.bytes;
  ssize_t received;
  do {
    received = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Received{};
    if (errno == ECONNRESET) return Received{.closed = true};
    return errno_status("receiving from a socket");
  }
  Received result{.bytes = static_cast<size_t>(received), .closed = received == 0};
  for (cmsghdr* message = CMSG_FIRSTHDR(&header); message != nullptr; message = CMSG_NXTHDR(&header, message)) {
    if (message->cmsg_level != SOL_SOCKET || message->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (message->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int number;
      std::memcpy(&number, CMSG_DATA(message) + i * sizeof(int), sizeof number);
      result.descriptors.emplace_back(number);
    }
  }
  if (header.msg_flags & MSG_CTRUNC)
    return arrow::Status::IOError(
        "descriptors were lost on a socket, because this process may have no more of them open; "
        "raise the limit with `ulimit -n`");
  return result;
}

}  // namespace paceline
