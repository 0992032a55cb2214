#include <fcntl.h>
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

arrow::Result<LogFile> LogFile::open(const std::string& path) {
  if (path.empty()) return LogFile(Descriptor());
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file) return errno_status("opening the log file " + path);
  return LogFile(std::move(file));
}

void LogFile::append(const Lines& lines) {
  if (!file_) return;
  std::string text;
  for (const std::string& line : lines) text.append(line).push_back('\n');
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = ::write(file_.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    rest.remove_prefix(static_cast<size_t>(written));
  }
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
