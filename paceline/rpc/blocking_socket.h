// Envelopes over a Unix stream socket with plain blocking calls: for processes that may have no event loop (a worker's
// control thread, the guardian, the command line). Speaks the same frames as socket_channel.h.
//
// Threading: one thread may receive while others send; sends are serialised inside.
#pragma once

#include <arrow/result.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>

#include "paceline/core/posix/descriptor.h"
#include "paceline/rpc/envelope.h"
#include "paceline/rpc/frame.h"

namespace paceline::rpc {

class BlockingSocket {
 public:
  /// Takes ownership of a connected socket.
  explicit BlockingSocket(Descriptor socket);

  /// Writes the whole envelope; sets its sequence. IOError when the peer is gone, Invalid when it is too large.
  arrow::Status send(Envelope envelope);
  /// Waits for the next envelope; nullopt when the peer has closed in order. IOError when it broke off in the middle of
  /// a message, Invalid when it sent nonsense.
  arrow::Result<std::optional<Envelope>> receive();
  /// Waits at most `timeout` (real time) until receive() need not wait: true then, false at the timeout. Called by the
  /// receiving thread. For a caller that has something else to do now and then, such as sending a heartbeat.
  arrow::Result<bool> wait(std::chrono::milliseconds timeout);
  /// Whether receive() has given all that was read: another process that has the socket may receive from here on.
  bool is_drained() const { return !next_ && reader_.is_drained(); }
  /// Wakes a receive() in another thread; it returns nullopt. Sends fail from now on.
  void shut_down();
  int descriptor() const { return socket_.get(); }

 private:
  arrow::Status receive_portion();
  arrow::Status write(std::span<const std::byte> bytes, std::span<const int> descriptors);

  Descriptor socket_;
  std::mutex send_mutex_;
  int64_t sequence_ = 0;

  FrameReader reader_;
  std::optional<Envelope> next_;  // what wait() found
  bool peer_closed_ = false;
  std::unique_ptr<std::byte[]> buffer_;
  std::atomic<bool> shut_down_ = false;
};

}  // namespace paceline::rpc
