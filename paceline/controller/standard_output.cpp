#include "paceline/controller/standard_output.h"

#include <cstdio>
#include <utility>

#include "paceline/core/posix/thread.h"

namespace paceline::controller {

StandardOutput::~StandardOutput() {
  finish();
}

void StandardOutput::write(std::string text, OutputWritten written) {
  // Signals are blocked there: the SIGPIPE of a reader that has gone ends nothing.
  if (!thread_.joinable()) thread_ = start_thread([this] { write_all(); });
  const std::lock_guard lock(mutex_);
  waiting_.push_back({std::move(text), std::move(written)});
  given_.notify_one();
}

bool StandardOutput::is_behind() const {
  const std::lock_guard lock(mutex_);
  return !waiting_.empty();
}

void StandardOutput::finish() {
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    given_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

// Through the C library's buffer, so that it comes after what the program has written there before.
void StandardOutput::write_all() {
  bool is_open = true;
  std::unique_lock lock(mutex_);
  while (true) {
    given_.wait(lock, [this] { return finished_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    Text& first = waiting_.front();  // stays where it is while others are added behind it
    lock.unlock();
    if (is_open) {
      is_open =
          std::fwrite(first.text.data(), 1, first.text.size(), stdout) == first.text.size() && std::fflush(stdout) == 0;
    }
    inbox_.push(first.written);
    lock.lock();
    waiting_.pop_front();
  }
}

}  // namespace paceline::controller
