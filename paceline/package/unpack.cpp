#include "paceline/package/unpack.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace paceline::package {
namespace {

namespace fs = std::filesystem;

arrow::Status put(const PackagedFile& file, const Cache& cache, const fs::path& target, Content content) {
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  if (error) return arrow::Status::IOError("cannot make ", target.parent_path().string(), ": ", error.message());
  if (!file.link.empty()) {
    fs::create_symlink(file.link, target, error);
    if (error) return arrow::Status::IOError("cannot make the link ", target.string(), ": ", error.message());
    return arrow::Status::OK();
  }
  const std::string source = cache.path_of(file.sha256);
  if (content == Content::shared && ::link(source.c_str(), target.c_str()) == 0) return arrow::Status::OK();
  fs::copy_file(source, target, error);
  if (error) return arrow::Status::IOError("cannot copy ", source, " to ", target.string(), ": ", error.message());
  const mode_t mode = file.executable || content == Content::shared ? 0700 : 0600;
  if (::chmod(target.c_str(), mode) != 0) return errno_status("cannot change " + target.string());
  return arrow::Status::OK();
}

}  // namespace

arrow::Status unpack(const Manifest& manifest, const Cache& cache, const std::string& folder, Content content) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return arrow::Status::IOError("cannot make ", folder, ": ", error.message());
  for (const PackagedFile& file : manifest) {
    ARROW_RETURN_NOT_OK(put(file, cache, fs::path(folder) / file.path, content));
  }
  return arrow::Status::OK();
}

}  // namespace paceline::package
