#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <cerrno>

#include "paceline/agent/output_internal.h"

namespace paceline::agent {

Lines LineSplitter::feed(std::string_view bytes) {
  Lines lines;
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, kMaxBytes - rest_.size() + 1);
    const size_t end = part.find('\n');
    if (end != std::string_view::npos) {
      lines.push_back(std::exchange(rest_, {}).append(part.substr(0, end)));
      bytes.remove_prefix(end + 1);
    } else if (rest_.size() + part.size() > kMaxBytes) {
      const size_t fits = kMaxBytes - rest_.size();
      lines.push_back(std::exchange(rest_, {}).append(part.substr(0, fits)));
      bytes.remove_prefix(fits);
    } else {
      rest_.append(part);
      bytes.remove_prefix(part.size());
    }
  }
  return lines;
}

Lines LineSplitter::finish() {
  Lines lines;
  if (!rest_.empty()) lines.push_back(std::exchange(rest_, {}));
  return lines;
}

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

OutputPipe::OutputPipe(boost::asio::io_context& loop, Descriptor pipe, OnLines on_lines)
    : pipe_(loop, pipe.release()), on_lines_(std::move(on_lines)) {
  pipe_.non_blocking(true);
}

// Waits and reads in two steps: so no bytes are ever held by an operation that has completed but was not handled yet,
// and drain() can read on where the last read ended.
void OutputPipe::start() {
  pipe_.async_wait(pipe_.wait_read, [self = shared_from_this()](const boost::system::error_code& error) {
    if (error || !self->pipe_.is_open()) return;
    if (self->read() == Read::end) {
      self->drain();
    } else {
      self->start();
    }
  });
}

void OutputPipe::drain() {
  if (!pipe_.is_open()) return;
  // What was in the pipe when its writers ended is at most what it holds; a stranger may write on for ever.
  const int capacity = ::fcntl(pipe_.native_handle(), F_GETPIPE_SZ);
  for (size_t taken = 0; taken < static_cast<size_t>(capacity) && read(&taken) == Read::some;) {
  }
  Lines last = splitter_.finish();
  if (!last.empty()) on_lines_(std::move(last));
  pipe_.close();
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
  if (!lines.empty()) on_lines_(std::move(lines));
  return Read::some;
}

}  // namespace paceline::agent
