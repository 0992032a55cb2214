#include "paceline/rpc/blocking_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "paceline/core/posix/socket_pair.h"
#include "paceline/rpc/frame.h"

namespace paceline::rpc {
namespace {

using Steady = std::chrono::steady_clock;

// Whether `socket` became ready for `events` (or closed) before `timeout`; none waits without end.
arrow::Result<bool> poll_socket(int socket, short events, std::optional<std::chrono::milliseconds> timeout) {
  const auto deadline = timeout ? Steady::now() + *timeout : Steady::time_point::max();
  pollfd entry{.fd = socket, .events = events, .revents = 0};
  while (true) {
    int wait_ms = -1;
    if (timeout) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Steady::now()).count();
      wait_ms = static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
    }
    const int ready = ::poll(&entry, 1, wait_ms);
    if (ready > 0) return true;
    if (ready == 0 && timeout && Steady::now() >= deadline) return false;
    if (ready < 0 && errno != EINTR) return errno_status("waiting for a socket");
  }
}

}  // namespace

BlockingSocket::BlockingSocket(Descriptor socket)
    : socket_(std::move(socket)), buffer_(std::make_unique_for_overwrite<std::byte[]>(kPortionBytes)) {}

arrow::Status BlockingSocket::send(Envelope envelope) {
  const std::lock_guard lock(send_mutex_);
  if (shut_down_) return arrow::Status::IOError("the socket is shut down");
  envelope.sequence = sequence_ + 1;
  ARROW_ASSIGN_OR_RAISE(const std::string start, encode_frame_start(envelope));
  ++sequence_;
  std::vector<int> descriptors;
  for (const Descriptor& descriptor : envelope.descriptors) descriptors.push_back(descriptor.get());
  ARROW_RETURN_NOT_OK(write(std::as_bytes(std::span(start)), descriptors));
  return write(std::as_bytes(std::span(envelope.bytes)), {});
}

arrow::Status BlockingSocket::write(std::span<const std::byte> bytes, std::span<const int> descriptors) {
  while (!bytes.empty()) {
    ARROW_ASSIGN_OR_RAISE(const size_t sent, send_some(socket_.get(), bytes, descriptors));
    if (sent == 0) {  // the socket is a non-blocking one
      ARROW_RETURN_NOT_OK(poll_socket(socket_.get(), POLLOUT, std::nullopt).status());
      continue;
    }
    bytes = bytes.subspan(sent);
    descriptors = {};
  }
  return arrow::Status::OK();
}

arrow::Result<std::optional<Envelope>> BlockingSocket::receive() {
  while (true) {
    if (next_) return std::exchange(next_, std::nullopt);
    ARROW_ASSIGN_OR_RAISE(std::optional<Envelope> envelope, reader_.next());
    if (envelope) return envelope;
    if (peer_closed_) {
      if (shut_down_ || reader_.at_boundary()) return std::nullopt;
      return arrow::Status::IOError("the peer broke off in the middle of a message");
    }
    ARROW_RETURN_NOT_OK(receive_portion());
  }
}

arrow::Result<bool> BlockingSocket::wait(std::chrono::milliseconds timeout) {
  const auto deadline = Steady::now() + timeout;
  while (true) {
    if (next_ || peer_closed_) return true;
    ARROW_ASSIGN_OR_RAISE(next_, reader_.next());
    if (next_) return true;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Steady::now());
    ARROW_ASSIGN_OR_RAISE(const bool readable, poll_socket(socket_.get(), POLLIN, left));
    if (!readable) return false;
    ARROW_RETURN_NOT_OK(receive_portion());
  }
}

// Receives what is there, waiting for the first byte. Nonsense is told by the reader's next().
arrow::Status BlockingSocket::receive_portion() {
  ARROW_ASSIGN_OR_RAISE(Received received, receive_some(socket_.get(), {buffer_.get(), kPortionBytes}));
  peer_closed_ = received.closed;
  if (received.bytes == 0 && !received.closed) {  // the socket is a non-blocking one
    return poll_socket(socket_.get(), POLLIN, std::nullopt).status();
  }
  (void)reader_.feed({buffer_.get(), received.bytes}, std::move(received.descriptors));
  return arrow::Status::OK();
}

void BlockingSocket::shut_down() {
  shut_down_ = true;
  ::shutdown(socket_.get(), SHUT_RDWR);
}

}  // namespace paceline::rpc
