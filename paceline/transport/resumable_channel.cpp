#include "paceline/transport/resumable_channel.h"

#include <algorithm>
#include <cstdio>
#include <span>

namespace paceline::transport {
namespace {

// The peer hears of what has come after so many bytes, or with the next frame that goes anyway.
constexpr int64_t kBytesBetweenAcknowledgements = int64_t{256} << 10;
// Up to this size, a message's bytes and its head are one piece.
constexpr size_t kJoinedBytes = size_t{4} << 10;

std::string seconds(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", std::chrono::duration<double>(duration).count());
  return text;
}

}  // namespace

// One link, while it is used. Everything but the link is guarded by the session's mutex.
struct Session::Connection {
  explicit Connection(std::shared_ptr<Link> used, Time now) : link(std::move(used)), written(now) {}

  const std::shared_ptr<Link> link;
  bool busy = true;      // the thread that reads does something else, such as running a handler
  bool writing = false;  // a thread writes, or is about to
  Time written;          // when something was last given to the link
  int64_t unacknowledged = 0;
  bool sign_is_due = false;  // a frame is to go, if only to acknowledge or as a heartbeat
  bool close_written = false;
  bool finishing = false;  // both ends have closed
  bool finished = false;
  Time finishing_since;
  arrow::Status why;  // it ended
};

std::shared_ptr<Session> Session::make(std::shared_ptr<SharedThreads> threads, Options options) {
  const std::shared_ptr<Session> session(new Session(std::move(threads), std::move(options)));
  session->threads_->watch(session, session->heard_ + session->heartbeat_);
  return session;
}

Session::Session(std::shared_ptr<SharedThreads> threads, Options options)
    : threads_(std::move(threads)),
      options_(std::move(options)),
      heartbeat_(heartbeat_of(options_.lease)),
      heard_(threads_->now()) {}

// --- connections -------------------------------------------------------------------------------------------------

arrow::Status Session::can_resume(int64_t peer_received) const {
  const std::lock_guard lock(mutex_);
  return sending_.can_resume(peer_received);
}

Session::Resumption Session::prepare() {
  Connected before;
  Resumption here;
  {
    const std::lock_guard lock(mutex_);
    before = std::exchange(connection_, nullptr);
    // From here on no frame of the connection before is taken, so this stays true until the next is served.
    here = {.received = receiving_.received(), .number = ++prepared_};
    if (before) before->why = arrow::Status::IOError("the peer has another connection");
    changed_.notify_all();
  }
  if (before) before->link->close();
  return here;
}

arrow::Status Session::serve(Resumption here, std::shared_ptr<Link> link, int64_t peer_received) {
  Connected connection;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return arrow::Status::Invalid("the channel has ended");
    if (here.number != prepared_ || connection_) return arrow::Status::Invalid("the peer has another connection");
    ARROW_RETURN_NOT_OK(sending_.resume(peer_received));
    heard_ = threads_->now();
    was_connected_ = true;
    connection = connection_ = std::make_shared<Connection>(std::move(link), heard_);
    want_writing();
  }
  lose(connection, read(connection));
  const std::lock_guard lock(mutex_);
  return connection->finishing ? arrow::Status::OK() : connection->why;
}

// Gives the connection up, unless that has been done.
void Session::lose(const Connected& connection, const arrow::Status& why) {
  bool is_wanted = false, is_over = false;
  {
    const std::lock_guard lock(mutex_);
    if (connection_ == connection) {
      connection_ = nullptr;
      connection->why = lost_ = why;
      // A peer that has our close may be gone before the thread that wrote it is back.
      is_over = !ended_ && peer_closed_ && connection->close_written;
      if (is_over) connection->finishing = ended_ = true;
      is_wanted = !ended_;
    }
    changed_.notify_all();
  }
  connection->link->close();
  if (is_over) options_.on_end();
  if (is_wanted) options_.on_link_lost();
}

void Session::end(const arrow::Status& reason) {
  Connected connection;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
    if (!close_reason_) close_reason_ = reason;
    sending_.drop();
    connection = std::exchange(connection_, nullptr);
    if (connection) connection->why = reason;
    changed_.notify_all();
  }
  if (connection) connection->link->close();
  options_.on_end();
  tell_close_soon();
}

bool Session::has_ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

bool Session::wait_ended(std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [this] { return ended_ && !connection_; });
}

bool Session::was_connected() const {
  const std::lock_guard lock(mutex_);
  return was_connected_;
}

bool Session::is_connected() const {
  const std::lock_guard lock(mutex_);
  return connection_ != nullptr;
}

// --- time --------------------------------------------------------------------------------------------------------

arrow::Status Session::silence(Time now) const {
  std::string why = lost_.ok() ? "" : "; the connection before: " + lost_.message();
  return arrow::Status::IOError("nothing was heard from ", options_.peer, " for ", seconds(now - heard_), ", since ",
                                to_string(heard_), " (the lease is ", seconds(options_.lease), ")", why);
}

std::optional<Time> Session::look(Time now) {
  arrow::Status lost, ended;
  Connected connection;
  Time next = now + heartbeat_;
  {
    const std::lock_guard lock(mutex_);
    connection = connection_;
    if (connection && connection->busy) heard_ = now;
    if (!connection && ended_) return std::nullopt;
    if (closing_since_ && !ended_ && now - *closing_since_ >= options_.lease) {
      ended = arrow::Status::IOError(options_.peer, " did not take what was sent before the channel was closed");
    } else if (!connection) {
      if (now - heard_ >= options_.lease) ended = silence(now);
      next = std::min(next, heard_ + options_.lease);
    } else if (connection->finishing) {
      // The peer has all that there is to know; it need not say so.
      if (now - connection->finishing_since >= 4 * heartbeat_) lost = arrow::Status::IOError("the peer did not finish");
    } else if (now - heard_ >= options_.lease / 2) {
      lost = silence(now);
    } else {
      if (now - connection->written >= heartbeat_) {
        connection->sign_is_due = true;
        want_writing();
      } else {
        next = connection->written + heartbeat_;
      }
      next = std::min(next, heard_ + options_.lease / 2);
    }
  }
  if (!lost.ok()) lose(connection, lost);
  if (!ended.ok()) end(ended);
  return next;
}

// --- reading -----------------------------------------------------------------------------------------------------

arrow::Status Session::read(const Connected& connection) {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (connection_ != connection) return connection->why;
      connection->busy = false;
      heard_ = std::max(heard_, threads_->now());
    }
    const auto frame = connection->link->read();
    {
      const std::lock_guard lock(mutex_);
      connection->busy = true;
      if (connection->finishing && (!frame.ok() || !*frame)) return arrow::Status::OK();
    }
    ARROW_RETURN_NOT_OK(frame);
    if (!*frame) return arrow::Status::IOError("the connection was closed by ", options_.peer);
    const arrow::Status taken = take(connection, std::string_view(**frame));
    if (!taken.ok()) {
      end(taken);
      return taken;
    }
  }
}

arrow::Status Session::take(const Connected& connection, std::string_view bytes) {
  ARROW_ASSIGN_OR_RAISE(const WireFrame frame, decode_wire_frame(bytes));
  if (frame.kind == FrameKind::data) {
    // Not taken yet, so that the peer keeps it and what follows.
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return started_ || closed_ || connection_ != connection; });
  }
  const std::lock_guard handler_lock(handler_mutex_);
  std::string_view fresh;
  {
    const std::lock_guard lock(mutex_);
    if (connection_ != connection || connection->finishing) return arrow::Status::OK();
    heard_ = threads_->now();
    ARROW_RETURN_NOT_OK(sending_.acknowledge(frame.acknowledged));
    if (frame.kind == FrameKind::data) {
      ARROW_ASSIGN_OR_RAISE(fresh, receiving_.accept(frame.offset, frame.bytes));
      connection->unacknowledged += std::ssize(frame.bytes);
      if (connection->unacknowledged >= kBytesBetweenAcknowledgements) {
        connection->sign_is_due = true;
        want_writing();
      }
    } else if (frame.kind == FrameKind::close) {
      ARROW_RETURN_NOT_OK(take_close(frame));
    }
  }
  ARROW_RETURN_NOT_OK(deliver(fresh));
  if (frame.kind == FrameKind::close) tell_close();
  return arrow::Status::OK();
}

arrow::Status Session::take_close(const WireFrame& frame) {
  // A peer that answers our close has dropped what we would not read.
  if (!closed_ && frame.offset != receiving_.received()) {
    return arrow::Status::Invalid("bytes are missing at the end of the peer's stream: wanted ", frame.offset, ", got ",
                                  receiving_.received());
  }
  peer_closed_ = true;
  if (!close_reason_) close_reason_ = arrow::Status::OK();
  sending_.drop();
  want_writing();
  finish_if_both_closed();
  return arrow::Status::OK();
}

arrow::Status Session::deliver(std::string_view fresh) {
  if (fresh.empty() || closed_) return arrow::Status::OK();
  arrow::Status fed = reader_.feed(std::as_bytes(std::span(fresh)));
  while (!closed_) {
    ARROW_ASSIGN_OR_RAISE(std::optional<rpc::Envelope> envelope, reader_.next());
    if (!envelope) return fed;
    handlers_.on_message(*std::move(envelope));
  }
  return arrow::Status::OK();
}

// --- writing -----------------------------------------------------------------------------------------------------

void Session::want_writing() {
  if (!connection_ || connection_->writing) return;
  connection_->writing =
      threads_->submit([self = shared_from_this(), connection = connection_] { self->write(connection); });
}

void Session::write(const Connected& connection) {
  while (true) {
    std::string frame;
    {
      const std::lock_guard lock(mutex_);
      if (connection_ != connection) return;
      frame = next_frame();
      if (frame.empty() && (!connection->finishing || connection->finished)) {
        connection->writing = false;
        return;
      }
      connection->written = threads_->now();
      if (frame.empty()) connection->finished = true;
    }
    if (frame.empty()) {
      connection->link->finish_writing();
      continue;
    }
    const arrow::Status written = connection->link->write(std::move(frame));
    if (!written.ok()) return lose(connection, written);
    const std::lock_guard lock(mutex_);
    if (connection_ == connection) finish_if_both_closed();
  }
}

// What is to go next over the connection; empty: nothing.
std::string Session::next_frame() {
  Connection& connection = *connection_;
  if (connection.finishing) return {};
  FrameKind kind = FrameKind::heartbeat;
  if (sending_.has_next() && !connection.close_written) {
    kind = FrameKind::data;
  } else if ((closed_ || peer_closed_) && !connection.close_written) {
    kind = FrameKind::close;
    connection.close_written = true;
  } else if (!connection.sign_is_due) {
    return {};
  }
  connection.sign_is_due = false;
  connection.unacknowledged = 0;
  std::string frame = encode_header(kind, sending_.next_offset(), receiving_.received());
  if (kind == FrameKind::data) sending_.take(frame);
  return frame;
}

void Session::finish_if_both_closed() {
  Connection& connection = *connection_;
  if (!peer_closed_ || !connection.close_written || connection.finishing) return;
  connection.finishing = true;
  connection.finishing_since = threads_->now();
  ended_ = true;
  changed_.notify_all();
  want_writing();
  threads_->submit([self = shared_from_this()] { self->options_.on_end(); });
}

// --- the channel's side ------------------------------------------------------------------------------------------

void Session::start(rpc::Channel::Handlers handlers) {
  {
    const std::lock_guard lock(mutex_);
    handlers_ = std::move(handlers);
    started_ = true;
    changed_.notify_all();
    if (!close_reason_) return;
  }
  tell_close_soon();
}

arrow::Status Session::send(rpc::Envelope envelope) {
  if (!envelope.descriptors.empty()) {
    return arrow::Status::Invalid("descriptors cannot leave a machine: the message ", envelope.type, " for ",
                                  options_.peer, " has ", envelope.descriptors.size());
  }
  const std::lock_guard lock(mutex_);
  if (closed_) return arrow::Status::IOError("the channel is closed");
  if (close_reason_ && !close_reason_->ok()) return arrow::Status::IOError(close_reason_->message());
  if (peer_closed_ || ended_) return arrow::Status::IOError("the peer has closed the channel");
  envelope.sequence = sequence_ + 1;
  ARROW_ASSIGN_OR_RAISE(std::string start, rpc::encode_frame_start(envelope));
  ++sequence_;
  if (envelope.bytes.size() <= kJoinedBytes) start += std::exchange(envelope.bytes, {});
  sending_.push(std::move(start));
  sending_.push(std::move(envelope.bytes));
  want_writing();
  return arrow::Status::OK();
}

void Session::close() {
  const std::lock_guard lock(mutex_);
  if (closed_.exchange(true)) return;
  closing_since_ = threads_->now();
  changed_.notify_all();
  want_writing();
}

void Session::drop_handlers() {
  const std::lock_guard lock(handler_mutex_);
  handlers_ = {};
}

// With handler_mutex_ held.
void Session::tell_close() {
  arrow::Status reason;
  {
    const std::lock_guard lock(mutex_);
    if (!started_ || !close_reason_ || closed_ || told_) return;
    told_ = true;
    reason = *close_reason_;
  }
  handlers_.on_close(reason);
}

void Session::tell_close_soon() {
  const auto tell = [self = shared_from_this()] {
    const std::lock_guard lock(self->handler_mutex_);
    self->tell_close();
  };
  // Without the threads no other handler can run either.
  if (!threads_->submit(tell)) tell();
}

}  // namespace paceline::transport
