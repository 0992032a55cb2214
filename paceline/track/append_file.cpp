#include "paceline/track/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "paceline/storage/local/durable.h"

namespace paceline::track {

arrow::Result<AppendFile> AppendFile::open(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  struct stat about{};
  if (!file || ::fstat(file.get(), &about) != 0) return errno_status("opening " + path);
  return AppendFile(std::move(file), path, about.st_size);
}

arrow::Status AppendFile::append(std::string_view bytes) {
  const int64_t before = size_;
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const arrow::Status failed = errno_status("writing " + path_);
      return size_ == before ? failed : failed & cut(before);
    }
    size_ += written;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return arrow::Status::OK();
}

arrow::Status AppendFile::sync() {
  return ::fdatasync(file_.get()) == 0 ? arrow::Status::OK() : errno_status("syncing " + path_);
}

arrow::Status AppendFile::cut_torn_line() {
  ARROW_ASSIGN_OR_RAISE(const int64_t newline, newline_before(size_));
  return newline + 1 == size_ ? arrow::Status::OK() : cut(newline + 1);
}

arrow::Result<std::string> AppendFile::last_line(const std::function<bool(std::string_view)>& is_wanted) const {
  ARROW_ASSIGN_OR_RAISE(int64_t end, newline_before(size_));
  while (end >= 0) {
    ARROW_ASSIGN_OR_RAISE(const int64_t before, newline_before(end));
    std::string line(static_cast<size_t>(end - before - 1), '\0');
    ARROW_RETURN_NOT_OK(storage::read_at(file_, path_, before + 1, std::as_writable_bytes(std::span(line))));
    if (is_wanted(line)) return line;
    end = before;
  }
  return "";
}

arrow::Result<int64_t> AppendFile::newline_before(int64_t end) const {
  std::string block;
  while (end > 0) {
    const int64_t start = std::max<int64_t>(0, end - 4096);
    block.resize(static_cast<size_t>(end - start));
    ARROW_RETURN_NOT_OK(storage::read_at(file_, path_, start, std::as_writable_bytes(std::span(block))));
    const size_t newline = block.rfind('\n');
    if (newline != std::string::npos) return start + static_cast<int64_t>(newline);
    end = start;
  }
  return -1;
}

arrow::Status AppendFile::cut(int64_t size) {
  if (::ftruncate(file_.get(), size) != 0) return errno_status("cutting " + path_);
  size_ = size;
  return arrow::Status::OK();
}

}  // namespace paceline::track
