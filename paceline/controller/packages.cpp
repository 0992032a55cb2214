#include "paceline/controller/packages.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "paceline/core/bytes_text.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/package/collect.h"

namespace paceline::controller {
namespace {

namespace fs = std::filesystem;

std::string name_of(const std::string& module) {
  const fs::path path = fs::path(module).lexically_normal();
  return path.has_filename() ? path.filename() : path.parent_path().filename();
}

struct Wanted {
  rpc::PackageUse use;
  std::string setting;
  arrow::Result<package::Package> package;
};

std::vector<Wanted> wanted_by(const RunRequest& request, const package::Cache& cache) {
  const RunConfig& config = request.run_config;
  const package::CollectOptions options{.excludes = config.excludes};
  std::vector<Wanted> wanted;
  if (request.scaling_config.ship) {
    wanted.push_back({rpc::PackageUse::program, "ScalingConfig.ship", package::collect_program(cache)});
  }
  if (!config.working_dir.empty()) {
    wanted.push_back({rpc::PackageUse::directory, "RunConfig.working_dir",
                      package::collect({{.path = config.working_dir, .name = ""}}, options, cache)});
  }
  std::vector<package::Root> modules;
  for (const std::string& module : config.py_modules) modules.push_back({.path = module, .name = name_of(module)});
  if (!modules.empty()) {
    wanted.push_back({rpc::PackageUse::modules, "RunConfig.py_modules", package::collect(modules, options, cache)});
  }
  return wanted;
}

}  // namespace

arrow::Result<Packages> Packages::collect(const RunRequest& request) {
  const RunConfig& config = request.run_config;
  Packages packages;
  if (!request.scaling_config.ship && config.working_dir.empty() && config.py_modules.empty()) return packages;
  ARROW_ASSIGN_OR_RAISE(const std::string folder, package::cache_folder());
  ARROW_ASSIGN_OR_RAISE(packages.cache_, package::Cache::open(folder));
  for (const Wanted& one : wanted_by(request, *packages.cache_)) {
    if (!one.package.ok()) {
      return one.package.status().WithMessage(one.setting, ": ", one.package.status().message());
    }
    packages.list_.packages.push_back({one.use, one.package->checksum, one.package->text_bytes});
    packages.bytes_by_sum_[one.package->checksum] = one.package->text_bytes;
    for (const package::PackagedFile& file : one.package->manifest) {
      if (file.link.empty()) packages.bytes_by_sum_[file.sha256] = file.bytes;
    }
    packages.text_ += (packages.text_.empty() ? "" : "; ") + one.setting + ": " +
                      std::to_string(one.package->manifest.size()) + " files, " +
                      bytes_text(package::bytes_of(one.package->manifest));
  }
  packages.cache_->trim(package::kMostCachedBytes);
  return packages;
}

rpc::Envelope Packages::read(const rpc::PackageRead& wanted) const {
  auto bytes = bytes_of(wanted);
  rpc::Envelope reply = rpc::pack(rpc::PackagePart{.error = bytes.ok() ? "" : bytes.status().message()});
  if (bytes.ok()) reply.bytes = *std::move(bytes);
  return reply;
}

arrow::Result<std::string> Packages::bytes_of(const rpc::PackageRead& wanted) const {
  const auto found = bytes_by_sum_.find(wanted.sha256);
  const bool is_part = found != bytes_by_sum_.end() && wanted.offset >= 0 && wanted.bytes >= 0 &&
                       wanted.bytes <= rpc::kPackagePartBytes && wanted.offset <= found->second - wanted.bytes;
  if (!is_part) return arrow::Status::Invalid("the driver has no such piece of the run's code");
  // What is used stays in the cache, also while other runs need room.
  if (wanted.offset == 0) cache_->has(wanted.sha256, found->second);
  const std::string path = cache_->path_of(wanted.sha256);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return errno_status("the driver cannot open " + path);
  std::string bytes(static_cast<size_t>(wanted.bytes), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t size =
        ::pread(file.get(), bytes.data() + done, bytes.size() - done, wanted.offset + static_cast<off_t>(done));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return errno_status("the driver cannot read " + path);
    if (size == 0) return arrow::Status::IOError(path, " has become shorter");
    done += static_cast<size_t>(size);
  }
  return bytes;
}

std::string local_directory(const RunRequest& request) {
  const std::string& folder = request.run_config.working_dir;
  return folder.empty() ? request.directory : folder;
}

std::string local_modules(const RunConfig& run_config) {
  std::string folders;
  for (const std::string& module : run_config.py_modules) {
    const fs::path path = module;
    const fs::path folder = path.has_filename() ? path.parent_path() : path.parent_path().parent_path();
    folders += (folders.empty() ? "" : ":") + folder.string();
  }
  return folders;
}

}  // namespace paceline::controller
