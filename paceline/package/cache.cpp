#include "paceline/package/cache.h"

#include <fcntl.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkostemp()
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "paceline/core/state_directory.h"

namespace paceline::package {
namespace {

namespace fs = std::filesystem;

// Of the names of what is not whole yet.
constexpr const char* kPart = ".part_";
constexpr size_t kPortionBytes = size_t{1} << 20;

}  // namespace

arrow::Result<std::string> cache_folder() {
  if (const char* const folder = std::getenv("XDG_CACHE_HOME"); folder != nullptr && fs::path(folder).is_absolute()) {
    return std::string(folder) + "/paceline/packages";
  }
  const std::string home = home_directory();
  if (home.empty()) return arrow::Status::Invalid("this user has no home for packages of other machines");
  return home + "/.cache/paceline/packages";
}

Cache::Writer::Writer(std::string path, std::string target, std::string wanted, Descriptor file, Sha256 sum)
    : path_(std::move(path)),
      target_(std::move(target)),
      wanted_(std::move(wanted)),
      file_(std::move(file)),
      sum_(std::move(sum)) {}

Cache::Writer::~Writer() {
  if (file_) ::unlink(path_.c_str());
}

arrow::Status Cache::Writer::add(std::string_view bytes) {
  sum_.add(bytes);
  written_ += std::ssize(bytes);
  while (!bytes.empty()) {
    const ssize_t size = ::write(file_.get(), bytes.data(), bytes.size());
    if (size < 0 && errno != EINTR) return errno_status("cannot write " + path_);
    if (size > 0) bytes.remove_prefix(static_cast<size_t>(size));
  }
  return arrow::Status::OK();
}

arrow::Status Cache::Writer::finish() {
  if (const std::string got = sum_.hex(); got != wanted_) {
    return arrow::Status::Invalid("wanted a content with the SHA-256 ", wanted_, ", got ", got);
  }
  if (::fchmod(file_.get(), 0700) != 0 || ::fsync(file_.get()) != 0) return errno_status("cannot write " + path_);
  if (::rename(path_.c_str(), target_.c_str()) != 0) return errno_status("cannot rename " + path_);
  file_ = Descriptor();
  return arrow::Status::OK();
}

arrow::Result<Cache> Cache::open(std::string folder) {
  std::error_code error;
  fs::create_directories(fs::path(folder).parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return errno_status("cannot make the folder " + folder);
  struct stat facts{};
  if (::stat(folder.c_str(), &facts) != 0) return errno_status("cannot use the folder " + folder);
  if (facts.st_uid != ::geteuid() || (facts.st_mode & 022) != 0) {
    return arrow::Status::IOError("others may change what is in ", folder,
                                  ", from which programs are started; give it to this user alone (chmod 700)");
  }
  return Cache(std::move(folder));
}

bool Cache::has(const std::string& sha256, int64_t bytes) const {
  const std::string path = path_of(sha256);
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size != bytes) return false;
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return true;
}

arrow::Result<Cache::Writer> Cache::write(const std::string& sha256) const {
  ARROW_ASSIGN_OR_RAISE(Sha256 sum, Sha256::begin());
  std::string path = folder_ + "/" + kPart + "XXXXXX";
  Descriptor file(::mkostemp(path.data(), O_CLOEXEC));
  if (!file) return errno_status("cannot make a file in " + folder_);
  return Writer(std::move(path), path_of(sha256), sha256, std::move(file), std::move(sum));
}

arrow::Result<std::string> Cache::add_file(const std::string& path) const {
  ARROW_ASSIGN_OR_RAISE(const std::string sha256, sha256_of_file(path));
  const Descriptor source(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts{};
  if (!source || ::fstat(source.get(), &facts) != 0) return errno_status("cannot open " + path);
  if (has(sha256, facts.st_size)) return sha256;
  ARROW_ASSIGN_OR_RAISE(Writer writer, write(sha256));
  std::vector<char> portion(kPortionBytes);
  while (true) {
    const ssize_t size = ::read(source.get(), portion.data(), portion.size());
    if (size < 0) return errno_status("cannot read " + path);
    if (size == 0) break;
    ARROW_RETURN_NOT_OK(writer.add({portion.data(), static_cast<size_t>(size)}));
  }
  const arrow::Status finished = writer.finish();
  if (finished.IsInvalid()) return arrow::Status::IOError(path, " changes while it is read; try again");
  ARROW_RETURN_NOT_OK(finished);
  return sha256;
}

void Cache::trim(int64_t most_bytes) const {
  struct Content {
    fs::file_time_type used;
    int64_t bytes;
    fs::path path;
  };
  const auto recently = fs::file_time_type::clock::now() - std::chrono::hours(1);
  std::vector<Content> contents;
  int64_t all = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    const auto bytes = static_cast<int64_t>(it->file_size(gone));
    const auto used = it->last_write_time(gone);
    if (gone) continue;
    if (it->path().filename().string().starts_with(kPart)) {
      if (used < recently) fs::remove(it->path(), gone);
      continue;
    }
    all += bytes;
    contents.push_back({used, bytes, it->path()});
  }
  std::ranges::sort(contents, {}, &Content::used);
  for (const Content& content : contents) {
    if (all <= most_bytes || content.used > recently) return;
    if (fs::remove(content.path, error)) all -= content.bytes;
  }
}

}  // namespace paceline::package
