#include "paceline/storage/local/line_reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <thread>
#include <vector>

#include "paceline/core/posix/thread.h"
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
  ARROW_ASSIGN_OR_RAISE(const int64_t unread, unread_bytes());
  return read_block(offset_, std::min(end, offset_ + unread), take);
}

arrow::Result<int64_t> LineReader::unread_bytes() {
  if (!file_) {
    file_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file_ && errno == ENOENT) return 0;
    if (!file_) return errno_status("opening " + path_);
  }
  struct stat now{};
  if (::fstat(file_.get(), &now) != 0) return errno_status("reading " + path_);
  return std::max<int64_t>(now.st_size - offset_, 0);
}

// The lines before byte `end` of a block from `offset`, which goes behind each that is given.
arrow::Status LineReader::read_block(int64_t& offset, int64_t end, const Take& take) const {
  std::string block;
  for (size_t size = kBlockBytes; offset < end; size *= 2) {
    block.resize(std::min(size, static_cast<size_t>(end - offset)));  // mostly a short rest: no memory for more
    ARROW_ASSIGN_OR_RAISE(const size_t count, read_at(file_, path_, offset, std::as_writable_bytes(std::span(block))));
    std::string_view rest(block.data(), count);
    if (count == size && rest.find('\n') == std::string_view::npos) continue;  // a line longer than that
    for (size_t newline; (newline = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(newline + 1)) {
      ARROW_RETURN_NOT_OK(take(rest.substr(0, newline)));
      offset += static_cast<int64_t>(newline) + 1;
    }
    break;
  }
  return arrow::Status::OK();
}

// Of the first line that begins behind `from`; `end` when none does before it.
arrow::Result<int64_t> LineReader::start_of_line(int64_t from, int64_t end) const {
  std::string block(kBlockBytes, '\0');
  while (from < end) {
    ARROW_ASSIGN_OR_RAISE(const size_t count, read_at(file_, path_, from, std::as_writable_bytes(std::span(block))));
    const size_t newline = std::string_view(block.data(), count).find('\n');
    if (newline != std::string_view::npos) return std::min(end, from + static_cast<int64_t>(newline) + 1);
    if (count < block.size()) break;
    from += static_cast<int64_t>(count);
  }
  return end;
}

arrow::Status LineReader::read_in_parts(std::span<const Take> takes) {
  ARROW_ASSIGN_OR_RAISE(const int64_t unread, unread_bytes());
  const auto count = std::ssize(takes);
  std::vector<int64_t> starts{offset_};
  for (int64_t part = 1; part < count; ++part) {
    const int64_t from = std::max(offset_ + unread / count * part, starts.back());
    ARROW_ASSIGN_OR_RAISE(starts.emplace_back(), start_of_line(from, offset_ + unread));
  }
  starts.push_back(offset_ + unread);
  std::vector<int64_t> ends(starts.begin(), starts.end() - 1);
  std::vector<arrow::Status> results(takes.size());
  const auto read_part = [&](size_t part) {
    for (int64_t before = -1; ends[part] > before && results[part].ok();) {
      before = ends[part];
      results[part] = read_block(ends[part], starts[part + 1], takes[part]);
    }
  };
  std::vector<std::thread> threads;
  for (size_t part = 1; part < takes.size(); ++part) threads.push_back(start_thread([&, part] { read_part(part); }));
  read_part(0);
  for (std::thread& thread : threads) thread.join();
  for (const arrow::Status& result : results) ARROW_RETURN_NOT_OK(result);
  // Behind a last line without its newline, parts are empty.
  for (size_t part = 0; part < takes.size() && offset_ == starts[part]; ++part) offset_ = ends[part];
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
