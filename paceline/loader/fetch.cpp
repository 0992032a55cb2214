#include "paceline/loader/fetch.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "paceline/core/error.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/core/sha256.h"
#include "paceline/storage/local/durable.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

/// Holds an exclusive lock on a file made for it; removes the file when done, so that nothing is left in the folder.
class FetchLock {
 public:
  explicit FetchLock(fs::path path) : path_(std::move(path)) {
    do {
      file_ = Descriptor(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
      if (!file_) fail("open");
      while (flock(file_.get(), LOCK_EX) != 0) {
        if (errno != EINTR) fail("lock");
      }
    } while (!is_current());  // the last holder removed this file while we waited: lock the one in its place
  }
  ~FetchLock() { unlink(path_.c_str()); }
  FetchLock(const FetchLock&) = delete;
  FetchLock& operator=(const FetchLock&) = delete;

 private:
  bool is_current() const {
    struct stat mine{};
    struct stat named{};
    return fstat(file_.get(), &mine) == 0 && stat(path_.c_str(), &named) == 0 && mine.st_ino == named.st_ino;
  }
  [[noreturn]] void fail(const char* what) const {
    throw StorageError(std::string("cannot ") + what + " " + path_.string() + ": " + std::strerror(errno));
  }

  fs::path path_;
  Descriptor file_;
};

std::vector<FetchedFile> missing_files(const fs::path& folder, const std::vector<FetchedFile>& files) {
  std::vector<FetchedFile> missing;
  std::ranges::copy_if(files, std::back_inserter(missing),
                       [&folder](const FetchedFile& file) { return !fs::exists(folder / file.name); });
  return missing;
}

void fetch_one(const fs::path& folder, const FetchedFile& file, const Fetcher& fetch) {
  const fs::path partial = folder / ("." + file.name + ".partial");
  struct Remove {
    const fs::path& path;
    ~Remove() { unlink(path.c_str()); }
  } const remove{partial};  // after the rename there is nothing to remove
  fetch(file.name, partial);
  const std::string got = value_or_throw(sha256_of_file(partial.string()));
  if (got != file.sha256) {
    throw StorageError(file.name + " was fetched damaged or is another version: wanted SHA-256 " + file.sha256 +
                       ", got " + got + ". Fetch it again, or from another mirror");
  }
  throw_if_error(storage::sync(partial.string()));
  throw_if_error(storage::move(partial.string(), (folder / file.name).string()));
}

}  // namespace

void fetch_once(const fs::path& folder, const std::vector<FetchedFile>& files, const Fetcher& fetch) {
  if (missing_files(folder, files).empty()) return;
  throw_if_error(storage::make_folders(folder.string()));
  const FetchLock lock(folder / ".fetch.lock");
  for (const FetchedFile& file : missing_files(folder, files)) fetch_one(folder, file, fetch);
}

}  // namespace paceline
