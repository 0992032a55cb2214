// Envelopes over a Unix stream socket with plain blocking calls: for processes that may have no event loop (a worker's
// control thread, the guardian, the command line). Speaks the same frames as socket_channel.h.
//
// Threading: one thread may receive while others send; sends are serialised inside.
#pragma once

#include <arrow/result.h>

#include <memory>
#include <mutex>
#include <optional>

#include "paceline/core/posix/descriptor.h"
#include "paceline/rpc/envelope.h"
#include "paceline/rpc/frame.h"

namespace paceline::rpc {

class BlockingSocket {
 public:
  /// Takes ownership of a connected, blocking socket.
  explicit BlockingSocket(Descriptor socket);

  /// Writes the whole envelope; sets its sequence. IOError when the peer is gone, Invalid when it is too large.
  arrow::Status send(Envelope envelope);
  /// Waits for the next envelope; nullopt when the peer has closed in order.
  arrow::Result<std::optional<Envelope>> receive();
  /// Wakes a receive() in another thread; it returns nullopt. Sends fail from now on.
  void shut_down();
  int descriptor() const { return socket_.get(); }

 private:
  Descriptor socket_;
  std::mutex send_mutex_;
  int64_t sequence_ = 0;
  FrameReader reader_;
};

}  // namespace paceline::rpc
