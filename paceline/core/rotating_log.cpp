#include "paceline/core/rotating_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

namespace paceline {
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

void RotatingLog::append(const std::vector<std::string>& lines) {
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

}  // namespace paceline
