#include "paceline/rpc/socket_channel.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <deque>
#include <mutex>

#include "paceline/core/posix/socket_pair.h"
#include "paceline/rpc/frame.h"

namespace paceline::rpc {
namespace {

using boost::asio::posix::stream_descriptor;

// How much one turn reads or writes before the loop serves others.
constexpr size_t kTurnBytes = size_t{1} << 20;
// Up to this size, bytes travel in the system call of their head.
constexpr size_t kJoinedBytes = size_t{4} << 10;

struct Outgoing {
  std::string start;
  std::string bytes;
  std::vector<Descriptor> descriptors;
  size_t sent = 0;

  bool done() const { return sent == start.size() + bytes.size(); }
  std::span<const std::byte> rest() const {
    if (sent < start.size()) return std::as_bytes(std::span(start)).subspan(sent);
    return std::as_bytes(std::span(bytes)).subspan(sent - start.size());
  }
};

arrow::Result<Outgoing> encode(Envelope& envelope) {
  Outgoing outgoing;
  ARROW_ASSIGN_OR_RAISE(outgoing.start, encode_frame_start(envelope));
  outgoing.bytes = std::move(envelope.bytes);
  if (outgoing.bytes.size() <= kJoinedBytes) outgoing.start += std::exchange(outgoing.bytes, {});
  outgoing.descriptors = std::move(envelope.descriptors);
  return outgoing;
}

// What outlives the SocketChannel while the loop still holds one of its operations or its queue is not written.
//
// socket_ is used by the loop's thread only, the descriptor's number by all (system calls on it are thread-safe; it is
// closed when the last reference goes). mutex_ guards writing. handler_mutex_ is held while a handler runs, so that the
// destructor can wait; no handler is called once closed_ is set.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::io_context& loop, Descriptor socket)
      : number_(socket.get()), loop_(loop), socket_(loop, socket.release()) {
    ::fcntl(number_, F_SETFL, ::fcntl(number_, F_GETFL) | O_NONBLOCK);
  }

  void start(Channel::Handlers handlers) {
    handlers_ = std::move(handlers);
    boost::asio::post(loop_, [self = shared_from_this()] { self->wait_readable(); });
  }

  arrow::Status send(Envelope envelope) {
    const std::lock_guard lock(mutex_);
    if (closed_) return arrow::Status::IOError("the channel is closed");
    if (ended_) return arrow::Status::IOError("the peer has closed the channel");
    envelope.sequence = sequence_ + 1;
    ARROW_ASSIGN_OR_RAISE(Outgoing outgoing, encode(envelope));
    ++sequence_;
    queue_.push_back(std::move(outgoing));
    // The common case costs no turn of the loop: the socket takes it at once.
    if (queue_.size() == 1) write_queue();
    return ended_ ? arrow::Status::IOError("the peer has closed the channel") : arrow::Status::OK();
  }

  void close() {
    const std::lock_guard lock(mutex_);
    if (closed_.exchange(true)) return;
    if (queue_.empty()) shut_down();
  }

  /// After close(): waits until no handler runs, and lets go of what the handlers hold.
  void drop_handlers() {
    const std::lock_guard lock(handler_mutex_);
    handlers_ = {};
  }

 private:
  // Ends the stream; it also completes the loop's pending operations, which then let go of this object.
  void shut_down() { ::shutdown(number_, SHUT_RDWR); }

  // --- writing, under mutex_ ---

  void write_queue() {
    size_t written = 0;
    while (!queue_.empty() && written < kTurnBytes) {
      Outgoing& front = queue_.front();
      std::vector<int> descriptors;
      if (front.sent == 0) {
        for (const Descriptor& descriptor : front.descriptors) descriptors.push_back(descriptor.get());
      }
      const auto sent = send_some(number_, front.rest(), descriptors);
      if (!sent.ok()) return end_writing();
      if (*sent == 0) break;
      front.sent += *sent;
      written += *sent;
      if (front.done()) queue_.pop_front();
    }
    if (!queue_.empty()) {
      boost::asio::post(loop_, [self = shared_from_this()] { self->wait_writable(); });
    } else if (closed_) {
      shut_down();
    }
  }

  // The peer is gone. What it sent before is still read; then the reading side tells on_close.
  void end_writing() {
    ended_ = true;
    queue_.clear();
    if (closed_) shut_down();
  }

  void wait_writable() {
    socket_.async_wait(stream_descriptor::wait_write, [self = shared_from_this()](const auto& error) {
      if (error) return;
      const std::lock_guard lock(self->mutex_);
      self->write_queue();
    });
  }

  // --- reading, on the loop's thread ---

  void wait_readable() {
    socket_.async_wait(stream_descriptor::wait_read, [self = shared_from_this()](const auto& error) {
      if (!error) self->read();
    });
  }

  void read() {
    // One for all connections that the thread reads: the reader takes over what came before anything else is read.
    thread_local const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kPortionBytes);
    for (size_t turn = 0; turn < kTurnBytes;) {
      if (closed_) return;
      auto received = receive_some(number_, {buffer.get(), kPortionBytes});
      if (!received.ok()) return end(received.status());
      if (received->closed) {
        return end(reader_.at_boundary() ? arrow::Status::OK()
                                         : arrow::Status::IOError("the peer broke off in the middle of a message"));
      }
      if (received->bytes == 0) break;
      turn += received->bytes;
      const arrow::Status fed = reader_.feed({buffer.get(), received->bytes}, std::move(received->descriptors));
      deliver();
      if (!fed.ok()) return end(fed);
    }
    wait_readable();
  }

  void deliver() {
    while (true) {
      auto envelope = reader_.next();
      if (!envelope.ok() || !*envelope) return;
      const std::lock_guard lock(handler_mutex_);
      if (closed_) return;
      handlers_.on_message(std::move(**envelope));
    }
  }

  void end(const arrow::Status& reason) {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      queue_.clear();
      shut_down();
    }
    const std::lock_guard lock(handler_mutex_);
    if (!closed_) handlers_.on_close(reason);
  }

  const int number_;
  boost::asio::io_context& loop_;
  stream_descriptor socket_;
  Channel::Handlers handlers_;
  FrameReader reader_;

  std::mutex mutex_;
  std::deque<Outgoing> queue_;
  int64_t sequence_ = 0;
  bool ended_ = false;                // the peer is gone: nothing can be written any more
  std::atomic<bool> closed_ = false;  // this end has closed

  std::mutex handler_mutex_;
};

class SocketChannel final : public Channel {
 public:
  SocketChannel(boost::asio::io_context& loop, Descriptor socket)
      : connection_(std::make_shared<Connection>(loop, std::move(socket))) {}
  ~SocketChannel() override {
    connection_->close();
    connection_->drop_handlers();
  }

  void start(Handlers handlers) override { connection_->start(std::move(handlers)); }
  arrow::Status send(Envelope envelope) override { return connection_->send(std::move(envelope)); }
  void close() override { connection_->close(); }

 private:
  std::shared_ptr<Connection> connection_;
};

}  // namespace

std::unique_ptr<Channel> make_socket_channel(boost::asio::io_context& loop, Descriptor socket) {
  return std::make_unique<SocketChannel>(loop, std::move(socket));
}

}  // namespace paceline::rpc
