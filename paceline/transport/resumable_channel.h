// An rpc::Channel over connections (link.h) that come and go: messages arrive once and in order as long as a connection
// comes back within the lease.
//
// A channel has two sides. ResumableChannel is what its user holds. Session is for whoever makes the connections
// (listener.h, connector.h): it reads each of them on a thread of its own.
//
//     auto session = Session::make(threads, options);            ResumableChannel channel(session);
//     const Session::Resumption here = session->prepare();        // told to the peer, which answers what it has
//     session->serve(here, link, what_the_peer_has);              // returns when the connection is over
//
// The lease: both ends send something at least every heartbeat. An end that hears nothing for half the lease gives the
// connection up, and wants another (Options::on_link_lost). After a whole lease without a word from the peer, the
// channel ends with an IOError that names the peer. Time is this machine's, and steady: clocks of the two machines do
// not matter. While a handler runs, the peer is not listened to and does not count as silent.
// Handlers run on the thread that serves the connection, so a handler should take well below a lease.
// Memory: what is sent and not acknowledged, and one message that is arriving. A receiver that has not started, or
// whose handler is busy, stops reading, so that its peer keeps the rest.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "paceline/rpc/channel.h"
#include "paceline/rpc/frame.h"
#include "paceline/transport/link.h"
#include "paceline/transport/resumable_stream.h"
#include "paceline/transport/shared_threads.h"
#include "paceline/transport/wire_frame.h"

namespace paceline::transport {

/// How often an end says something when it has nothing to say: an eighth of the lease, at most 5 s. More often costs a
/// controller with 1,000 agents a good part of a core, and finds nothing sooner.
inline Duration heartbeat_of(Duration lease) {
  return std::min<Duration>(lease / 8, std::chrono::seconds(5));
}

class Session final : public Timed, public std::enable_shared_from_this<Session> {
 public:
  struct Options {
    /// For error messages: who is at the other end.
    std::string peer;
    Duration lease = std::chrono::seconds(30);
    /// The connection is gone, and another is wanted. Called on any thread, without locks.
    std::function<void()> on_link_lost = [] {};
    /// No connection is wanted any more. Called once, on any thread, without locks.
    std::function<void()> on_end = [] {};
  };
  /// What this end has, for the peer of the next connection.
  struct Resumption {
    int64_t received = 0;
    int64_t number = 0;
  };

  /// The lease begins now.
  static std::shared_ptr<Session> make(std::shared_ptr<SharedThreads> threads, Options options);

  /// Whether serve() could go on where the peer wants to; Invalid, with the numbers, where it could not.
  arrow::Status can_resume(int64_t peer_received) const;
  /// Before the next connection: gives up the one there is, if any.
  Resumption prepare();
  /// Uses `link` until it is over; the calling thread reads it. `peer_received`: what the peer said that it has. OK
  /// when both have said all they had; otherwise why this connection ended. Invalid when the peer wants what is not
  /// there, or somebody else called prepare() meanwhile; the link is not used then.
  arrow::Status serve(Resumption here, std::shared_ptr<Link> link, int64_t peer_received);
  /// Ends the channel, which is told `reason`.
  void end(const arrow::Status& reason);

  /// Whether no connection is wanted any more.
  bool has_ended() const;
  /// Waits for that, at most `timeout` (real time).
  bool wait_ended(std::chrono::milliseconds timeout) const;
  /// Whether the channel has been closed at this end; what it has sent may still be on its way.
  bool is_closing() const { return closed_; }
  /// Whether there was a connection ever.
  bool was_connected() const;
  bool is_connected() const;

  std::optional<Time> look(Time now) override;

 private:
  friend class ResumableChannel;
  struct Connection;
  using Connected = std::shared_ptr<Connection>;

  Session(std::shared_ptr<SharedThreads> threads, Options options);

  // The channel's side.
  void start(rpc::Channel::Handlers handlers);
  arrow::Status send(rpc::Envelope envelope);
  void close();
  void drop_handlers();

  // Reading, on the thread that serves.
  arrow::Status read(const Connected& connection);
  arrow::Status take(const Connected& connection, std::string_view bytes);
  arrow::Status take_close(const WireFrame& frame);
  arrow::Status deliver(std::string_view fresh);

  // Writing, on one of the shared threads at a time.
  void want_writing();
  void write(const Connected& connection);
  std::string next_frame();
  void finish_if_both_closed();

  void lose(const Connected& connection, const arrow::Status& why);
  void tell_close();
  void tell_close_soon();
  arrow::Status silence(Time now) const;

  const std::shared_ptr<SharedThreads> threads_;
  const Options options_;
  const Duration heartbeat_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Connected connection_;
  int64_t prepared_ = 0;
  bool was_connected_ = false;
  arrow::Status lost_;  // why the last connection ended
  Time heard_;
  std::optional<Time> closing_since_;
  SendingStream sending_;
  ReceivingStream receiving_;
  int64_t sequence_ = 0;
  bool started_ = false;
  bool peer_closed_ = false;
  bool ended_ = false;
  std::optional<arrow::Status> close_reason_;  // what on_close is to say
  std::atomic<bool> closed_ = false;           // this end has closed

  // Held while a message is taken and its handlers run.
  std::mutex handler_mutex_;
  rpc::FrameReader reader_;
  rpc::Channel::Handlers handlers_;
  bool told_ = false;
};

/// The user's side. Destroying it closes it; what was sent is still delivered by the session, while it has a connection
/// or gets one within the lease.
class ResumableChannel final : public rpc::Channel {
 public:
  explicit ResumableChannel(std::shared_ptr<Session> session) : session_(std::move(session)) {}
  ~ResumableChannel() override {
    session_->close();
    session_->drop_handlers();
  }

  void start(Handlers handlers) override { session_->start(std::move(handlers)); }
  arrow::Status send(rpc::Envelope envelope) override { return session_->send(std::move(envelope)); }
  void close() override { session_->close(); }
  bool carries_descriptors() const override { return false; }
  bool is_connected() const override { return session_->is_connected(); }

 private:
  std::shared_ptr<Session> session_;
};

}  // namespace paceline::transport
