#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <cerrno>

#include "paceline/agent/output_internal.h"

namespace paceline::agent {

OutputPipe::OutputPipe(boost::asio::io_context& loop, Descriptor pipe, std::string stream, bool waits,
                       OnOutput on_output)
    : pipe_(loop, pipe.release()),
      stream_(std::move(stream)),
      waits_(waits),
      on_output_(std::move(on_output)),
      bar_timer_(loop),
      hold_timer_(loop) {
  pipe_.non_blocking(true);
}

// Waits and reads in two steps: so no bytes are ever held by an operation that has completed but was not handled yet,
// and drain() can read on where the last read ended.
void OutputPipe::start() {
  pipe_.async_wait(pipe_.wait_read, [self = shared_from_this()](const boost::system::error_code& error) {
    if (error || !self->pipe_.is_open()) return;
    if (self->read() == Read::end) {
      self->drain();
    } else if (self->untaken_ > kMostUntaken) {
      self->paused_ = true;
    } else {
      self->start();
    }
  });
}

void OutputPipe::note_taken(int64_t bytes) {
  untaken_ -= bytes;
  if (untaken_ > kMostUntaken || !std::exchange(paused_, false) || !pipe_.is_open()) return;
  start();
}

void OutputPipe::release() {
  while (pipe_.is_open() && splitter_.is_held() && untaken_ <= kMostUntaken && read() == Read::some) {
  }
  if (splitter_.is_held()) tell(splitter_.release());
}

void OutputPipe::settle() {
  if (!pipe_.is_open() || paused_) return;
  take_all();
}

void OutputPipe::drain() {
  if (!pipe_.is_open()) return;
  take_all();
  pipe_.close();
}

void OutputPipe::take_all() {
  // What was in the pipe when its writers ended is at most what it holds; a stranger may write on for ever.
  const int capacity = ::fcntl(pipe_.native_handle(), F_GETPIPE_SZ);
  for (size_t taken = 0; taken < static_cast<size_t>(capacity) && read(&taken) == Read::some;) {
  }
  bar_timer_.cancel();
  bar_is_due_ = false;
  hold_timer_.cancel();
  tell(splitter_.finish());
}

OutputPipe::Read OutputPipe::read(size_t* taken) {
  std::array<char, size_t{64} << 10> buffer;
  ssize_t size;
  do {
    size = ::read(pipe_.native_handle(), buffer.data(), buffer.size());
  } while (size < 0 && errno == EINTR);
  if (size < 0 && errno == EAGAIN) return Read::nothing;
  if (size <= 0) return Read::end;
  if (taken != nullptr) *taken += static_cast<size_t>(size);
  Lines lines = splitter_.feed({buffer.data(), static_cast<size_t>(size)});
  if (lines.empty()) {
    tell_bar_soon();
  } else {
    tell(std::move(lines));
  }
  if (splitter_.is_held()) release_later();
  return Read::some;
}

void OutputPipe::tell(Lines lines) {
  rpc::Output output{.stream = stream_, .lines = std::move(lines), .waits = waits_};
  if (std::string bar = splitter_.bar(); bar != told_bar_) output.bar = told_bar_ = std::move(bar);
  if (output.lines.empty() && !output.bar) return;
  if (waits_) untaken_ += rpc::bytes_of(output);
  on_output_(std::move(output));
}

void OutputPipe::tell_bar_soon() {
  if (splitter_.bar() == told_bar_ || std::exchange(bar_is_due_, true)) return;
  bar_timer_.expires_after(kBarInterval);
  bar_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || !std::exchange(self->bar_is_due_, false)) return;
    self->tell({});
  });
}

void OutputPipe::release_later() {
  hold_timer_.expires_after(kHoldInterval);
  hold_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    // A later line may have moved the timer when this call was on its way already.
    if (!error && self->hold_timer_.expiry() <= std::chrono::steady_clock::now()) self->release();
  });
}

}  // namespace paceline::agent
