#include <arrow/buffer.h>
#include <arrow/io/file.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <random>

#include "paceline/data/file/file_access_internal.h"
#include "paceline/data/source/cache_folder_internal.h"

namespace paceline::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMark = "paceline_cache";
constexpr std::string_view kBlockEnding = ".arrows";
constexpr std::string_view kUnfinished = ".unfinished_";
constexpr mode_t kForUser = 0700;  // blocks may be private
constexpr int kAsItIs = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

bool has_folder_name(std::string_view name) {
  constexpr size_t kDigits = 16;
  return name.size() == kDigits && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool has_block_name(std::string_view name) {
  if (!name.ends_with(kBlockEnding)) return false;
  name.remove_suffix(kBlockEnding.size());
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string file_of(int64_t block) {
  return std::to_string(block) + std::string(kBlockEnding);
}

Descriptor open_folder(const fs::path& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool lock(const Descriptor& file, int how) {
  int failed = 0;
  while ((failed = ::flock(file.get(), how)) != 0 && errno == EINTR) {
  }
  return failed == 0;
}

// Whether the name in the folder is of that open file still.
bool is_still(const Descriptor& folder, const char* name, const Descriptor& file) {
  struct stat there = {}, opened = {};
  return ::fstatat(folder.get(), name, &there, AT_SYMLINK_NOFOLLOW) == 0 && ::fstat(file.get(), &opened) == 0 &&
         there.st_ino == opened.st_ino && there.st_dev == opened.st_dev;
}

// Calls `call` with the name and status of each entry.
template <typename Call>
void for_each_entry(const fs::path& path, const Call& call) {
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(descriptor.get()), ::closedir);
  if (entries == nullptr) return;
  const int folder = descriptor.release();
  while (const dirent* const entry = ::readdir(entries.get())) {  // NOLINT(concurrency-mt-unsafe): of one thread
    struct stat status = {};
    if (::fstatat(folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0) call(std::string(entry->d_name), status);
  }
}

void remove_if_left(const Descriptor& folder, const std::string& name) {
  const Descriptor file(::openat(folder.get(), name.c_str(), O_RDWR | kAsItIs));
  if (file && lock(file, LOCK_EX | LOCK_NB) && is_still(folder, name.c_str(), file)) {
    ::unlinkat(folder.get(), name.c_str(), 0);
  }
}

arrow::Status write_all(const Descriptor& file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno_status("write");
    text.remove_prefix(static_cast<size_t>(written));
  }
  return arrow::Status::OK();
}

}  // namespace

arrow::Result<Descriptor> use_cache_folder(const fs::path& folder) {
  const fs::path parent = fs::absolute(folder).parent_path();
  std::error_code error;
  fs::create_directories(parent.parent_path(), error);
  ::mkdir(parent.c_str(), kForUser);
  while (true) {
    ::mkdir(folder.c_str(), kForUser);
    const Descriptor opened = open_folder(folder);
    if (!opened) return errno_status("cannot keep blocks in " + folder.string());
    Descriptor mark(::openat(opened.get(), kMark, O_RDWR | O_CREAT | kAsItIs, 0600));
    if (!mark && errno == ENOENT) continue;  // another process has just removed the folder
    if (!mark) return errno_status("cannot keep blocks in " + folder.string());
    // A file system without locks has no way to remove folders either: that needs one.
    lock(mark, LOCK_SH);
    if (!is_still(opened, kMark, mark)) continue;
    ::futimens(mark.get(), nullptr);
    return mark;
  }
}

std::vector<CacheFolder> cache_folders(const fs::path& path) {
  std::vector<CacheFolder> folders;
  for_each_entry(path, [&](const std::string& name, const struct stat& status) {
    if (!S_ISDIR(status.st_mode) || !has_folder_name(name)) return;
    CacheFolder found{.path = path / name};
    const Descriptor folder = open_folder(found.path);
    struct stat mark = {};
    if (!folder || ::fstatat(folder.get(), kMark, &mark, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(mark.st_mode)) return;
    constexpr int64_t kNanoseconds = 1'000'000'000;
    found.used_at = int64_t{mark.st_mtim.tv_sec} * kNanoseconds + mark.st_mtim.tv_nsec;
    for_each_entry(found.path, [&](const std::string& file, const struct stat& of_file) {
      if (!S_ISREG(of_file.st_mode)) return;
      if (has_block_name(file)) found.bytes += int64_t{of_file.st_size};
      if (file.starts_with(kUnfinished)) remove_if_left(folder, file);
    });
    folders.push_back(std::move(found));
  });
  std::ranges::sort(folders, {}, [](const CacheFolder& folder) { return std::pair(folder.used_at, folder.path); });
  return folders;
}

bool drop_cache_folder(const fs::path& folder) {
  const Descriptor opened = open_folder(folder);
  if (!opened) return false;
  const Descriptor mark(::openat(opened.get(), kMark, O_RDWR | kAsItIs));
  if (!mark || !lock(mark, LOCK_EX | LOCK_NB) || !is_still(opened, kMark, mark)) return false;
  for_each_entry(folder, [&](const std::string& name, const struct stat& status) {
    if (!S_ISREG(status.st_mode) || !(has_block_name(name) || name.starts_with(kUnfinished))) return;
    ::unlinkat(opened.get(), name.c_str(), 0);
  });
  ::unlinkat(opened.get(), kMark, 0);
  ::rmdir(folder.c_str());  // unless something is in it that is not the cache's
  return true;
}

int64_t bytes_of_block(const fs::path& folder, int64_t block) {
  struct stat status = {};
  const bool is_there = ::lstat((folder / file_of(block)).c_str(), &status) == 0 && S_ISREG(status.st_mode);
  return is_there ? int64_t{status.st_size} : 0;
}

arrow::Status write_block(const fs::path& folder, int64_t block, std::string_view first, std::string_view then) {
  const Descriptor opened = open_folder(folder);
  if (!opened) return errno_status("open");
  std::random_device random;
  const std::string unfinished = std::string(kUnfinished) + std::to_string(random()) + "_" + std::to_string(random());
  const Descriptor file(
      ::openat(opened.get(), unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return errno_status("open");
  const auto written = [&]() -> arrow::Status {
    lock(file, LOCK_EX | LOCK_NB);  // else somebody takes it for left: then renaming fails
    ARROW_RETURN_NOT_OK(write_all(file, first));
    ARROW_RETURN_NOT_OK(write_all(file, then));
    if (::renameat(opened.get(), unfinished.c_str(), opened.get(), file_of(block).c_str()) == 0) {
      return arrow::Status::OK();
    }
    return errno_status("rename");
  }();
  if (!written.ok()) ::unlinkat(opened.get(), unfinished.c_str(), 0);
  return written;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> read_block(const fs::path& folder, int64_t block) {
  const fs::path path = folder / file_of(block);
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | kAsItIs));
  struct stat status = {};
  if (!descriptor || ::fstat(descriptor.get(), &status) != 0) return errno_status(path.string());
  if (!S_ISREG(status.st_mode)) return arrow::Status::Invalid(path.string(), " is no regular file");
  ARROW_ASSIGN_OR_RAISE(const auto file, arrow::io::ReadableFile::Open(descriptor.release()));
  return read_exactly(*file, 0, int64_t{status.st_size});
}

}  // namespace paceline::data
