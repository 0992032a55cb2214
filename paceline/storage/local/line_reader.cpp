#include "paceline/storage/local/line_reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "paceline/storage/local/durable.h"

namespace paceline::storage {
namespace {

constexpr size_t kBlockBytes = size_t{256} << 10;

}  // namespace

arrow::Status LineReader::read(const Take& take) {
  for (int64_t before = -1; offset_ > before;) {
    before = offset_;
    ARROW_RETURN_NOT_OK(read_some(take));
  }
  return arrow::Status::OK();
}

arrow::Status LineReader::read_some(const Take& take, int64_t end) {
  if (!file_) {
    file_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file_) return errno == ENOENT ? arrow::Status::OK() : errno_status("opening " + path_);
  }
  struct stat now{};
  if (::fstat(file_.get(), &now) != 0) return errno_status("reading " + path_);
  end = std::min<int64_t>(end, now.st_size);  // mostly a short rest: no memory for more than that
  std::string block;
  for (size_t size = kBlockBytes; offset_ < end; size *= 2) {
    block.resize(std::min(size, static_cast<size_t>(end - offset_)));
    ARROW_ASSIGN_OR_RAISE(const size_t count, read_at(file_, path_, offset_, std::as_writable_bytes(std::span(block))));
    std::string_view rest(block.data(), count);
    if (count == size && rest.find('\n') == std::string_view::npos) continue;  // a line longer than that
    for (size_t newline; (newline = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(newline + 1)) {
      ARROW_RETURN_NOT_OK(take(rest.substr(0, newline)));
      offset_ += static_cast<int64_t>(newline) + 1;
    }
    break;
  }
  return arrow::Status::OK();
}

bool LineReader::was_replaced() const {
  struct stat now{}, opened{};
  if (!file_ || ::fstat(file_.get(), &opened) != 0) return false;
  if (::stat(path_.c_str(), &now) != 0) return true;
  return now.st_ino != opened.st_ino || now.st_dev != opened.st_dev || now.st_size < offset_;
}

arrow::Status read_lines_from_end(const std::string& path, const std::function<bool(std::string_view line)>& take) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return errno == ENOENT ? arrow::Status::OK() : errno_status("opening " + path);
  struct stat about{};
  if (::fstat(file.get(), &about) != 0) return errno_status("examining " + path);
  int64_t start = about.st_size;
  bool has_end = false;  // `text` ends where a line does
  std::string text;      // from `start` to the last newline whose line was not given
  while (start > 0) {
    // As much again as there is of a line that is longer than a block.
    const int64_t size = std::min(start, static_cast<int64_t>(std::max(kBlockBytes, text.size())));
    std::string block(static_cast<size_t>(size), '\0');
    start -= size;
    ARROW_RETURN_NOT_OK(read_at(file, path, start, std::as_writable_bytes(std::span(block))));
    text.insert(0, block);
    for (size_t newline; (newline = text.rfind('\n')) != std::string::npos; has_end = true) {
      if (has_end && !take(std::string_view(text).substr(newline + 1))) return arrow::Status::OK();
      text.resize(newline);
    }
  }
  if (has_end) take(text);
  return arrow::Status::OK();
}

}  // namespace paceline::storage
