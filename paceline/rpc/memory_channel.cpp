#include "paceline/rpc/memory_channel.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "paceline/core/posix/thread.h"
#include "paceline/rpc/frame.h"

namespace paceline::rpc {
namespace {

// One direction: what one end has sent and the other has not received yet.
class Pipe {
 public:
  arrow::Status push(Envelope envelope) {
    const std::lock_guard lock(mutex_);
    if (writer_closed_) return arrow::Status::IOError("the channel is closed");
    if (reader_closed_) return arrow::Status::IOError("the peer has closed the channel");
    envelope.sequence = sequence_ + 1;
    // Encoded for its limits only: what is too large for a socket must not pass in memory either.
    ARROW_RETURN_NOT_OK(encode_frame_start(envelope).status());
    ++sequence_;
    queue_.push_back(std::move(envelope));
    changed_.notify_one();
    return arrow::Status::OK();
  }

  /// Waits for the next envelope; nullopt when either end has closed and, at the reader's, nothing is left.
  std::optional<Envelope> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return reader_closed_ || writer_closed_ || !queue_.empty(); });
    if (reader_closed_ || queue_.empty()) return std::nullopt;
    std::optional<Envelope> envelope = std::move(queue_.front());
    queue_.pop_front();
    return envelope;
  }

  void close_writer() {
    const std::lock_guard lock(mutex_);
    writer_closed_ = true;
    changed_.notify_one();
  }

  void close_reader() {
    const std::lock_guard lock(mutex_);
    reader_closed_ = true;
    queue_.clear();
    changed_.notify_one();
  }

  bool reader_closed() {
    const std::lock_guard lock(mutex_);
    return reader_closed_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Envelope> queue_;
  int64_t sequence_ = 0;
  bool writer_closed_ = false;
  bool reader_closed_ = false;
};

class MemoryChannel final : public Channel {
 public:
  MemoryChannel(std::shared_ptr<Pipe> incoming, std::shared_ptr<Pipe> outgoing)
      : incoming_(std::move(incoming)), outgoing_(std::move(outgoing)) {}

  ~MemoryChannel() override {
    close();
    if (thread_.joinable()) thread_.join();
  }

  void start(Handlers handlers) override {
    thread_ = start_thread([this, handlers = std::move(handlers)] { deliver(handlers); });
  }

  arrow::Status send(Envelope envelope) override { return outgoing_->push(std::move(envelope)); }

  void close() override {
    outgoing_->close_writer();
    incoming_->close_reader();
  }

 private:
  void deliver(const Handlers& handlers) {
    while (std::optional<Envelope> envelope = incoming_->pop()) handlers.on_message(std::move(*envelope));
    if (incoming_->reader_closed()) return;
    // The peer reads no more either: a send after on_close has to fail.
    outgoing_->close_writer();
    handlers.on_close(arrow::Status::OK());
  }

  std::shared_ptr<Pipe> incoming_;
  std::shared_ptr<Pipe> outgoing_;
  std::thread thread_;
};

}  // namespace

std::pair<std::unique_ptr<Channel>, std::unique_ptr<Channel>> make_memory_channels() {
  auto to_right = std::make_shared<Pipe>();
  auto to_left = std::make_shared<Pipe>();
  return {std::make_unique<MemoryChannel>(to_left, to_right), std::make_unique<MemoryChannel>(to_right, to_left)};
}

}  // namespace paceline::rpc
