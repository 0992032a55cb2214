#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <cerrno>

#include "paceline/agent/output_internal.h"

namespace paceline::agent {

namespace {

arrow::Result<Descriptor> open_log(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file) return errno_status("opening the log file " + path);
  return file;
}

}  // namespace

arrow::Result<RotatingLog> RotatingLog::open(const std::string& path, const Limit& limit) {
  if (path.empty()) return RotatingLog(Descriptor(), path, limit, 0);
  ARROW_ASSIGN_OR_RAISE(Descriptor file, open_log(path));
  struct stat about{};
  const int64_t size = ::fstat(file.get(), &about) == 0 ? about.st_size : 0;
  return RotatingLog(std::move(file), path, limit, size);
}

void RotatingLog::append(const Lines& lines) {
  if (!file_) return;
  std::string text;
  for (const std::string& line : lines) {
    const int64_t bytes = size_ + std::ssize(text);
    if (limit_.file_bytes > 0 && bytes > 0 && bytes + std::ssize(line) + 1 > limit_.file_bytes) {
      write(std::exchange(text, {}));
      rotate();
    }
    text.append(line).push_back('\n');
  }
  write(text);
}

void RotatingLog::write(std::string_view text) {
  const int64_t before = size_;
  while (!text.empty()) {
    const ssize_t written = ::write(file_.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      // A full disk: half a line would join the next one that fits.
      if (size_ != before && ::ftruncate(file_.get(), before) == 0) size_ = before;
      return;
    }
    size_ += written;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void RotatingLog::rotate() {
  const auto name = [this](int64_t number) { return number == 0 ? path_ : path_ + "." + std::to_string(number); };
  int64_t last = 0;  // the first number that is free, or the last that may be
  while (last < limit_.most_files - 1 && ::access(name(last).c_str(), F_OK) == 0) ++last;
  for (; last >= 1; --last) ::rename(name(last - 1).c_str(), name(last).c_str());  // the oldest is replaced
  if (limit_.most_files <= 1) ::unlink(path_.c_str());
  auto log = open(path_, limit_);
  if (log.ok()) *this = *std::move(log);  // otherwise it goes on in the old one
}

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
