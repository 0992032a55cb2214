#include "paceline/storage/local/file_writer.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "paceline/core/fail_point.h"
#include "paceline/storage/local/durable.h"

namespace paceline::storage {
namespace {

constexpr size_t kMaxPending = 512;  // below IOV_MAX

// Drops what a short write has taken from the front.
std::span<iovec> advance(std::span<iovec> pending, size_t written) {
  while (!pending.empty() && written >= pending.front().iov_len) {
    written -= pending.front().iov_len;
    pending = pending.subspan(1);
  }
  if (!pending.empty()) {
    pending.front().iov_base = static_cast<std::byte*>(pending.front().iov_base) + written;
    pending.front().iov_len -= written;
  }
  return pending;
}

}  // namespace

arrow::Result<FileWriter> FileWriter::create(const std::string& path, mode_t mode) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file) return errno_status("making file " + path);
  return FileWriter(std::move(file), path);
}

arrow::Status FileWriter::append(std::span<const std::byte> bytes, Checksum* part) {
  while (!bytes.empty()) {
    const auto portion = bytes.first(std::min(bytes.size(), kPortion));
    bytes = bytes.subspan(portion.size());
    checksum_.update(portion);
    if (part != nullptr) part->update(portion);
    pending_.push_back({.iov_base = const_cast<std::byte*>(portion.data()), .iov_len = portion.size()});
    pending_bytes_ += portion.size();
    size_ += static_cast<int64_t>(portion.size());
    if (pending_bytes_ >= kPortion || pending_.size() >= kMaxPending) ARROW_RETURN_NOT_OK(flush());
  }
  return arrow::Status::OK();
}

arrow::Status FileWriter::flush() {
  std::span<iovec> left(pending_);
  while (!left.empty()) {
    ARROW_RETURN_NOT_OK(fail_point("file_writer.write"));
    const ssize_t written = ::writev(file_.get(), left.data(), static_cast<int>(left.size()));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno_status("writing " + path_);
    left = advance(left, static_cast<size_t>(written));
  }
  pending_.clear();
  pending_bytes_ = 0;
  start_disk();
  return arrow::Status::OK();
}

// The disk works while the rest is summed and copied, so that a sync has little left to wait for. A hint: what cannot
// be written is the sync's to say.
void FileWriter::start_disk() {
  constexpr int64_t kAtOnce = int64_t{8} << 20;
  if (size_ - started_ < kAtOnce) return;
  (void)::sync_file_range(file_.get(), started_, size_ - started_, SYNC_FILE_RANGE_WRITE);
  started_ = size_;
}

arrow::Result<FileSum> FileWriter::finish() {
  ARROW_RETURN_NOT_OK(flush());
  file_.reset();
  return FileSum{.size = size_, .checksum = checksum_.hex()};
}

arrow::Result<FileSum> copy_file(const std::string& from, const std::string& to) {
  ARROW_ASSIGN_OR_RAISE(const Descriptor source, open_for_reading(from));
  struct stat about{};
  if (::fstat(source.get(), &about) != 0) return errno_status("reading " + from);
  ARROW_ASSIGN_OR_RAISE(FileWriter copy, FileWriter::create(to, about.st_mode & 0777));
  if (::ioctl(copy.file_.get(), FICLONE, source.get()) == 0) return checksum_of_file(to);
  std::vector<std::byte> buffer(std::min(kPortion, static_cast<size_t>(about.st_size) + 1));
  for (int64_t offset = 0;;) {
    ARROW_ASSIGN_OR_RAISE(const size_t count, read_at(source, from, offset, buffer));
    ARROW_RETURN_NOT_OK(copy.append({buffer.data(), count}));
    ARROW_RETURN_NOT_OK(copy.flush());
    if (count < buffer.size()) return copy.finish();
    offset += static_cast<int64_t>(count);
  }
}

}  // namespace paceline::storage
