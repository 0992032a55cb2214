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

void Outbox::push(rpc::Envelope envelope, bool may_wait) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (!status_.ok()) return;
    queue_.push_back(std::move(envelope));
    ++pushed_count_;
    if (!may_wait || queue_.size() >= kMostGathered) hastes_ = true;
    // A busy sender looks at the queue anyway; waking it costs a system call.
    const SenderWaits waits = sender_waits_;
    wake = waits == SenderWaits::for_anything || (hastes_ && waits == SenderWaits::for_haste);
    if (wake) sender_waits_ = SenderWaits::no;
  }
  if (wake) pushed_.notify_one();
}

arrow::Status Outbox::flush() {
  std::unique_lock lock(mutex_);
  const int64_t wanted = pushed_count_;
  haste();
  written_.wait(lock, [&] { return written_count_ >= wanted || !status_.ok(); });
  return status_;
}

arrow::Status Outbox::run(rpc::BlockingSocket& socket) {
  std::unique_lock lock(mutex_);
  auto gathers_until = std::chrono::steady_clock::now();
  while (true) {
    sender_waits_ = SenderWaits::for_haste;
    pushed_.wait_until(lock, gathers_until, [this] { return hastes_ || closed_; });
    sender_waits_ = SenderWaits::for_anything;
    pushed_.wait(lock, [this] { return !queue_.empty() || closed_; });
    sender_waits_ = SenderWaits::no;
    if (queue_.empty()) return arrow::Status::OK();
    hastes_ = false;
    for (rpc::Envelope& envelope : std::exchange(queue_, {})) {
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
    gathers_until = std::chrono::steady_clock::now() + kGatherTime;
  }
}

void Outbox::haste() {
  hastes_ = true;
  pushed_.notify_one();
}

void Outbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  haste();
}

}  // namespace paceline::worker
