// Outbox: messages that wait to be written to the agent by the sender thread.
//
// push() costs its caller a lock and a move, and a system call when it wakes the sender thread, whose work it is to
// turn a message into text and to write it. What may wait leaves up to 5 ms later, together with what was pushed
// meanwhile: for steps of a millisecond that is a fifth of the wake-ups, of this process's threads and of the driver's.
// Thread-safe. Order is kept. Once a write has failed the agent is gone: what is pushed then is dropped. In place of a
// message that is over the limits of rpc/channel.h a Failed is sent.
#pragma once

#include <arrow/status.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>

#include "paceline/rpc/blocking_socket.h"

namespace paceline::worker {

class Outbox {
 public:
  /// For how long what may wait does, from the last writing on.
  static constexpr std::chrono::milliseconds kGatherTime{5};
  /// As many messages do not wait for more.
  static constexpr size_t kMostGathered = 32;

  /// Queues a message, which leaves at once unless it `may_wait`. Never blocks on the agent.
  void push(rpc::Envelope envelope, bool may_wait = false);
  /// Waits until all that was pushed before the call is written; IOError when the agent is gone.
  arrow::Status flush();

  /// The sender thread: writes to `socket` until close() and nothing is left, or until a write fails (its status).
  arrow::Status run(rpc::BlockingSocket& socket);
  void close();

 private:
  void haste();

  std::mutex mutex_;
  std::condition_variable pushed_;
  std::condition_variable written_;
  std::deque<rpc::Envelope> queue_;
  int64_t pushed_count_ = 0;
  int64_t written_count_ = 0;
  enum class SenderWaits { no, for_haste, for_anything };
  SenderWaits sender_waits_ = SenderWaits::no;
  bool hastes_ = false;  // something in the queue may not wait
  bool closed_ = false;
  arrow::Status status_;
};

}  // namespace paceline::worker
