// Channel: one end of an ordered, reliable, two-way stream of envelopes.
//
// Implementations: in memory (memory_channel.h, the reference), Unix stream sockets (socket_channel.h), and between
// machines (transport/resumable_channel.h). One conformance suite (testing/channel_conformance.h) runs against each.
// Threading: send() and close() may be called from any thread. Handlers are called one after another, never two at
// once, on the implementation's thread, which the implementation's header names. A handler may send and close.
// Ownership: whoever holds the channel; destroying it closes it and waits until no handler runs (not from a handler).
// After close() no further handler is called, except the one that may be running.
#pragma once

#include <arrow/status.h>

#include <cstddef>
#include <functional>

#include "paceline/rpc/envelope.h"

namespace paceline::rpc {

/// Largest head and largest bytes of one envelope; larger ones are refused by both sides.
inline constexpr size_t kMaxHeadBytes = size_t{16} << 20;
inline constexpr size_t kMaxBytes = size_t{1} << 30;
inline constexpr size_t kMaxDescriptors = 8;

class Channel {
 public:
  struct Handlers {
    /// A message has arrived. Messages come in the order of sending, each once.
    std::function<void(Envelope)> on_message;
    /// Nothing more will come. OK when the peer closed in order, an error when the stream broke or held nonsense.
    /// Called once, after the last message; not called when this end closed the channel.
    std::function<void(arrow::Status)> on_close;
  };

  virtual ~Channel() = default;

  /// Begins to deliver what arrives; what came before is kept. Call once.
  virtual void start(Handlers handlers) = 0;
  /// Queues `envelope`; sets its sequence. Never blocks on the peer. Invalid when it is too large; IOError when either
  /// end is known to have closed. Delivery is in order, or the peer's on_close tells.
  virtual arrow::Status send(Envelope envelope) = 0;
  /// Delivers what is queued, as far as the peer still reads, then closes. Idempotent.
  virtual void close() = 0;
  /// Whether messages may have descriptors. They cannot leave a machine: send() of one is Invalid where this is false.
  virtual bool carries_descriptors() const { return true; }
  /// Whether the peer can be reached, as far as is known: false while a connection that broke may come back.
  virtual bool is_connected() const { return true; }
};

}  // namespace paceline::rpc
