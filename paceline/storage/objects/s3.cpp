#include "paceline/storage/objects/s3_internal.h"

#include <arrow/filesystem/s3fs.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "paceline/storage/objects/retrying_storage.h"

namespace paceline::storage {
namespace {

namespace afs = arrow::fs;

// Retries single requests, of which an upload has many; RetryingStorage retries what fails all the same, for longer.
class RequestRetries final : public afs::S3RetryStrategy {
 public:
  bool ShouldRetry(const AWSErrorDetail& error, int64_t retries) override { return error.should_retry && retries < 5; }
  int64_t CalculateDelayBeforeNextRetry(const AWSErrorDetail&, int64_t retries) override {
    return std::chrono::ceil<std::chrono::milliseconds>(pause_before_retry(retries + 1, {})).count();
  }
};

// pyarrow's wheel has S3 in a library of its own, beside libarrow.so and with the same version at the end of its name.
arrow::Status load_s3() {
  static const arrow::Status loaded = [] {
    Dl_info arrow_library{};
    if (::dladdr(reinterpret_cast<const void*>(&afs::LoadFileSystemFactories), &arrow_library) == 0) {
      return arrow::Status::OK();
    }
    std::string path = arrow_library.dli_fname;
    const size_t name = path.rfind("libarrow.so");
    if (name == std::string::npos) return arrow::Status::OK();
    path.insert(name + std::strlen("libarrow"), "_s3");
    // Elsewhere S3 is in libarrow.so, or it is not there: then FileSystemFromUri says so.
    return std::filesystem::exists(path) ? afs::LoadFileSystemFactories(path.c_str()) : arrow::Status::OK();
  }();
  return loaded;
}

}  // namespace

arrow::Result<std::shared_ptr<afs::FileSystem>> open_s3(const std::string& uri, std::string* path) {
  ARROW_RETURN_NOT_OK(load_s3());
  const afs::FileSystemFactoryOptions options = {
      {"retry_strategy", std::shared_ptr<afs::S3RetryStrategy>(std::make_shared<RequestRetries>())}};
  // Small files are one request instead of three.
  const std::string delayed = uri + (uri.find('?') == std::string::npos ? "?" : "&") + "allow_delayed_open=true";
  auto made = afs::FileSystemFromUriAndOptions(delayed, options, path);
  // Only now: at exit() it must run before what S3's library has registered.
  static const int registered = std::atexit([] { afs::EnsureFinalized(); });
  (void)registered;
  return made;
}

}  // namespace paceline::storage
