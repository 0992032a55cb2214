#include "paceline/worker/outbox.h"

#include <utility>

#include "paceline/rpc/messages.h"

namespace paceline::worker {

namespace {

// A message that is too large cannot go, and without it the run cannot go on: the controller is told that instead.
arrow::Status write(rpc::BlockingSocket& socket, rpc::Envelope envelope) {
  const std::string type = envelope.type;
  const Identity identity = envelope.identity;
  arrow::Status sent = socket.send(std::move(envelope));
  if (!sent.IsInvalid()) return sent;
  const rpc::Failed failed{.kind = "paceline::Error", .text = "cannot send a " + type + ": " + sent.message()};
  return socket.send(rpc::pack(failed, identity));
}

}  // namespace

void Outbox::push(rpc::Envelope envelope) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (!status_.ok()) return;
    queue_.push_back(std::move(envelope));
    ++pushed_count_;
    // A busy sender looks at the queue anyway; waking it costs a system call.
    wake = std::exchange(sender_waits_, false);
  }
  if (wake) pushed_.notify_one();
}

arrow::Status Outbox::flush() {
  std::unique_lock lock(mutex_);
  const int64_t wanted = pushed_count_;
  written_.wait(lock, [&] { return written_count_ >= wanted || !status_.ok(); });
  return status_;
}

arrow::Status Outbox::run(rpc::BlockingSocket& socket) {
  std::unique_lock lock(mutex_);
  while (true) {
    while (queue_.empty() && !closed_) {
      sender_waits_ = true;
      pushed_.wait(lock);
    }
    if (queue_.empty()) return arrow::Status::OK();
    rpc::Envelope envelope = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    arrow::Status sent = write(socket, std::move(envelope));
    lock.lock();
    ++written_count_;
    written_.notify_all();
    if (!sent.ok()) {
      queue_.clear();
      return status_ = std::move(sent);
    }
  }
}

void Outbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  pushed_.notify_one();
}

}  // namespace paceline::worker
