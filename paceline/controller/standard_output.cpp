#include "paceline/controller/standard_output.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <utility>

#include "paceline/core/posix/thread.h"

namespace paceline::controller {

StandardOutput::StandardOutput(Inbox& inbox, track::TextSink sink)
    : inbox_(inbox), sink_(std::move(sink)), leave_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

StandardOutput::~StandardOutput() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(leave_.get(), &one, sizeof one);
    given_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
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

void StandardOutput::write_all() {
  bool is_open = true;
  std::unique_lock lock(mutex_);
  while (true) {
    given_.wait(lock, [this] { return leaving_ || !waiting_.empty(); });
    if (leaving_) return;
    Text& first = waiting_.front();  // stays where it is while others are added behind it
    lock.unlock();
    if (sink_) {
      sink_(first.text);
    } else if (is_open) {
      // What the program has printed before comes first. There has to be room for it: whoever waits in fflush() holds a
      // lock that everybody needs who prints.
      is_open = wait_for_room() && std::fflush(stdout) == 0 && write_out(first.text);
    }
    OutputWritten written = first.written;
    lock.lock();
    waiting_.pop_front();
    inbox_.push(std::move(written));
  }
}

// False when nothing is to be written any more. A pipe that poll() calls writable takes PIPE_BUF bytes without waiting,
// which is as much as stdio keeps for one.
bool StandardOutput::wait_for_room() {
  std::array<pollfd, 2> events = {pollfd{::fileno(stdout), POLLOUT, 0}, pollfd{leave_.get(), POLLIN, 0}};
  while (::poll(events.data(), events.size(), -1) < 0 && errno == EINTR) {
  }
  return events[1].revents == 0;
}

// False too when nobody reads any more.
bool StandardOutput::write_out(std::string_view text) {
  const int output = ::fileno(stdout);
  while (!text.empty()) {
    if (!wait_for_room()) return false;
    const ssize_t written = ::write(output, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (written < 0 && errno != EAGAIN && errno != EINTR) return false;
    text.remove_prefix(static_cast<size_t>(std::max<ssize_t>(written, 0)));
  }
  return true;
}

}  // namespace paceline::controller
