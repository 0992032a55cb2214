// Outbox: messages that wait to be written to the agent by the sender thread.
//
// push() costs its caller a lock and a move; turning a message into text and writing it is the sender thread's work.
// Thread-safe. Order is kept. Once a write has failed the agent is gone: what is pushed then is dropped. In place of a
// message that is over the limits of rpc/channel.h a Failed is sent.
#pragma once

#include <arrow/status.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>

#include "paceline/rpc/blocking_socket.h"

namespace paceline::worker {

class Outbox {
 public:
  /// Queues a message. Never blocks on the agent.
  void push(rpc::Envelope envelope);
  /// Waits until all that was pushed before the call is written; IOError when the agent is gone.
  arrow::Status flush();

  /// The sender thread: writes to `socket` until close() and nothing is left, or until a write fails (its status).
  arrow::Status run(rpc::BlockingSocket& socket);
  void close();

 private:
  std::mutex mutex_;
  std::condition_variable pushed_;
  std::condition_variable written_;
  std::deque<rpc::Envelope> queue_;
  int64_t pushed_count_ = 0;
  int64_t written_count_ = 0;
  bool sender_waits_ = false;
  bool closed_ = false;
  arrow::Status status_;
};

}  // namespace paceline::worker
