#include "paceline/storage/local/local_storage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>

#include "paceline/storage/local/durable.h"
#include "paceline/storage/local/file_writer.h"

namespace paceline::storage {
namespace {

class LocalReader final : public FileReader {
 public:
  LocalReader(Descriptor file, std::string path, int64_t size)
      : file_(std::move(file)), path_(std::move(path)), size_(size) {}
  int64_t size() const override { return size_; }
  arrow::Result<size_t> read_at(int64_t offset, std::span<std::byte> buffer) const override {
    read_ahead(offset + static_cast<int64_t>(buffer.size()));
    return storage::read_at(file_, path_, offset, buffer);
  }

 private:
  // The disk works while the caller sums and copies what it has got; by itself the kernel reads less ahead.
  void read_ahead(int64_t end) const {
    constexpr int64_t kAhead = int64_t{16} << 20;
    const int64_t ahead = ahead_;
    const bool goes_on = end <= ahead && ahead - end <= kAhead;
    if (goes_on && ahead - end > kAhead / 2) return;
    const int64_t from = goes_on ? ahead : end;
    if (from >= size_) return;
    ahead_ = end + kAhead;
    (void)::posix_fadvise(file_.get(), from, end + kAhead - from, POSIX_FADV_WILLNEED);
  }

  Descriptor file_;
  std::string path_;
  int64_t size_;
  mutable std::atomic<int64_t> ahead_ = 0;  // where what was asked of the disk ends
};

}  // namespace

Location LocalStorage::location(const std::string& name) const {
  return path_of(name);
}

std::string LocalStorage::path_of(const std::string& name) const {
  return name.empty() ? folder_ : folder_ + "/" + name;
}

arrow::Result<std::string> LocalStorage::path_for_writing(const std::string& name) const {
  ARROW_RETURN_NOT_OK(check_name(name));
  std::string path = path_of(name);
  ARROW_RETURN_NOT_OK(make_folders(std::filesystem::path(path).parent_path().string()));
  return path;
}

arrow::Status LocalStorage::write(const std::string& name, std::string_view content) {
  ARROW_ASSIGN_OR_RAISE(const std::string path, path_for_writing(name));
  return write_atomically(path, content);
}

arrow::Result<FileSum> LocalStorage::upload(const std::string& local_file, const std::string& name) {
  ARROW_ASSIGN_OR_RAISE(const std::string path, path_for_writing(name));
  return copy_file_atomically(local_file, path);
}

arrow::Status LocalStorage::copy(const std::string& from, const std::string& to) {
  ARROW_RETURN_NOT_OK(check_name(from));
  if (!std::filesystem::is_regular_file(path_of(from)))
    return arrow::Status::KeyError("there is no file ", path_of(from));
  return upload(path_of(from), to).status();
}

arrow::Result<std::unique_ptr<FileReader>> LocalStorage::open(const std::string& name) const {
  ARROW_RETURN_NOT_OK(check_name(name));
  const std::string path = path_of(name);
  struct stat about{};
  if (::stat(path.c_str(), &about) != 0 || S_ISDIR(about.st_mode)) {
    if (errno != ENOENT && errno != ENOTDIR && !S_ISDIR(about.st_mode)) return errno_status("opening " + path);
    return arrow::Status::KeyError("there is no file ", path);
  }
  ARROW_ASSIGN_OR_RAISE(Descriptor file, open_for_reading(path));
  return std::make_unique<LocalReader>(std::move(file), path, about.st_size);
}

arrow::Result<std::vector<FileSize>> LocalStorage::list(const std::string& folder) const {
  std::vector<FileSize> files;
  if (!folder.empty()) ARROW_RETURN_NOT_OK(check_name(folder));
  const std::string path = path_of(folder);
  if (!std::filesystem::is_directory(path)) return files;
  ARROW_ASSIGN_OR_RAISE(const auto names, files_below(path));
  for (const std::string& name : names) {
    if (is_temporary_file(name)) continue;
    struct stat about{};
    if (::stat((path + "/" + name).c_str(), &about) != 0) {
      if (errno == ENOENT) continue;  // deleted meanwhile
      return errno_status("reading " + path + "/" + name);
    }
    files.push_back({folder.empty() ? name : folder + "/" + name, about.st_size});
  }
  return files;
}

arrow::Status LocalStorage::remove(const std::string& name) {
  ARROW_RETURN_NOT_OK(check_name(name));
  const std::string path = path_of(name);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR) return errno_status("deleting " + path);
  return arrow::Status::OK();
}

arrow::Status LocalStorage::remove_below(const std::string& folder) {
  ARROW_RETURN_NOT_OK(check_name(folder));
  return remove_all(path_of(folder));
}

}  // namespace paceline::storage
