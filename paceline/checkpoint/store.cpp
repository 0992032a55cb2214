#include "paceline/checkpoint/store.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>

#include "paceline/checkpoint/stage.h"
#include "paceline/core/fail_point.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/storage/checksum.h"
#include "paceline/storage/local.h"

namespace paceline::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "checkpoint_";

std::optional<int64_t> report_of(const std::string& folder_name) {
  if (!folder_name.starts_with(kPrefix)) return std::nullopt;
  const std::string digits = folder_name.substr(kPrefix.size());
  if (digits.empty() || digits.size() > 18) return std::nullopt;
  if (digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return std::stoll(digits);
}

arrow::Status rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) return errno_status("renaming " + from + " to " + to);
  return arrow::Status::OK();
}

arrow::Status make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? arrow::Status::IOError("making folder ", path.string(), ": ", error.message()) : arrow::Status::OK();
}

struct Part {
  std::string folder;
  Manifest manifest;
};

// In the order of ranks, with the rank entered in every file.
arrow::Result<std::vector<Part>> read_parts(const std::string& run_folder, std::vector<StagedPart> staged) {
  std::sort(staged.begin(), staged.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  std::vector<Part> parts;
  for (const auto& [rank, relative] : staged) {
    Part part{.folder = run_folder + "/" + relative};
    ARROW_ASSIGN_OR_RAISE(const std::string text, storage::read_file(part.folder + kPartEnding));
    auto manifest = decode_manifest(text);
    if (!manifest.ok()) {
      return arrow::Status::IOError("the part of rank ", rank, " in ", part.folder, ": ", manifest.status().message());
    }
    part.manifest = std::move(manifest).ValueUnsafe();
    for (auto& [name, file] : part.manifest.files) file.rank = rank;
    parts.push_back(std::move(part));
  }
  return parts;
}

// Moves the files that stay into `folder` and makes its tree durable but for its top, which the manifest's write syncs.
arrow::Status move_files(const std::vector<Part>& parts, const std::string& folder) {
  std::set<fs::path> folders;
  std::set<std::string> taken;
  bool has_metadata = false;
  for (const Part& part : parts) {
    for (const auto& [name, file] : part.manifest.files) {
      if (!taken.insert(name).second) continue;
      const fs::path to = fs::path(folder) / name;
      for (fs::path level = to.parent_path(); level != fs::path(folder); level = level.parent_path()) {
        if (!folders.insert(level).second) break;
      }
      ARROW_RETURN_NOT_OK(make_folder(to.parent_path()));
      ARROW_RETURN_NOT_OK(rename(part.folder + "/" + name, to.string()));
    }
    if (has_metadata || !fs::exists(part.folder + "/" + kMetadataName)) continue;
    has_metadata = true;
    ARROW_RETURN_NOT_OK(rename(part.folder + "/" + kMetadataName, folder + "/" + kMetadataName));
  }
  for (const fs::path& level : folders) ARROW_RETURN_NOT_OK(storage::sync(level.string()));
  return arrow::Status::OK();
}

arrow::Status put_together(const std::vector<Part>& parts, const Manifest& manifest, const std::string& folder) {
  ARROW_RETURN_NOT_OK(fail_point("publish.before_merge"));
  ARROW_RETURN_NOT_OK(make_folder(folder));
  ARROW_RETURN_NOT_OK(move_files(parts, folder));
  ARROW_RETURN_NOT_OK(fail_point("publish.before_manifest"));
  return storage::write_atomically(folder + "/" + kManifestName, encode_manifest(manifest));
}

Published published(const std::string& path, const Manifest& manifest) {
  return {.report = manifest.report, .path = path, .metrics = manifest.metrics, .time = manifest.time};
}

}  // namespace

std::string checkpoint_name(int64_t report) {
  char text[40];
  std::snprintf(text, sizeof text, "checkpoint_%06lld", static_cast<long long>(report));
  return text;
}

Store::Store(std::string run_folder) : run_folder_(std::move(run_folder)) {}

arrow::Result<Published> Store::publish(const std::vector<StagedPart>& parts, Manifest about) {
  ARROW_ASSIGN_OR_RAISE(const std::vector<Part> staged, read_parts(run_folder_, parts));
  std::vector<Manifest> manifests;
  for (const Part& part : staged) manifests.push_back(part.manifest);
  ARROW_ASSIGN_OR_RAISE(const Manifest merged, merge(manifests));
  about.files = merged.files;
  about.tensors = merged.tensors;
  about.values = merged.values;

  const std::string target = run_folder_ + "/" + checkpoint_name(about.report);
  if (fs::exists(target)) {
    if (read_manifest(target).ok()) return arrow::Status::AlreadyExists("there is a checkpoint ", target, " already");
    ARROW_RETURN_NOT_OK(remove(about.report));
  }
  const std::string folder = run_folder_ + "/" + kStagingName + "/publish_" + std::to_string(about.report);
  ARROW_RETURN_NOT_OK(storage::remove_all(folder));
  auto status = put_together(staged, about, folder);
  if (status.ok()) status = fail_point("publish.before_rename");
  if (status.ok()) status = rename(folder, target);
  if (!status.ok()) {
    (void)storage::remove_all(folder);  // the first error says more
    return status;
  }
  ARROW_RETURN_NOT_OK(fail_point("publish.after_rename"));
  ARROW_RETURN_NOT_OK(storage::sync(run_folder_));
  for (const Part& part : staged) {
    ARROW_RETURN_NOT_OK(storage::remove_all(part.folder));
    ARROW_RETURN_NOT_OK(storage::remove_all(part.folder + kPartEnding));
  }
  return published(target, about);
}

arrow::Result<std::vector<Published>> Store::list() const {
  std::vector<Published> checkpoints;
  std::error_code error;
  for (fs::directory_iterator entry(run_folder_, error), end; !error && entry != end; entry.increment(error)) {
    if (!report_of(entry->path().filename().string())) continue;
    const auto manifest = read_manifest(entry->path().string());
    if (manifest.ok()) checkpoints.push_back(published(entry->path().string(), *manifest));
  }
  if (error) return arrow::Status::IOError("reading folder ", run_folder_, ": ", error.message());
  std::sort(checkpoints.begin(), checkpoints.end(), [](const auto& a, const auto& b) { return a.report < b.report; });
  return checkpoints;
}

arrow::Status Store::remove(int64_t report) {
  const std::string path = run_folder_ + "/" + checkpoint_name(report);
  if (!fs::exists(path)) return arrow::Status::OK();
  const std::string staging = run_folder_ + "/" + kStagingName;
  const std::string doomed = staging + "/deleted_" + std::to_string(report);
  ARROW_RETURN_NOT_OK(make_folder(staging));
  ARROW_RETURN_NOT_OK(storage::remove_all(doomed));
  ARROW_RETURN_NOT_OK(storage::move(path, doomed));
  ARROW_RETURN_NOT_OK(fail_point("remove.after_rename"));
  return storage::remove_all(doomed);
}

arrow::Status Store::discard_stages(Attempt attempt, WorkerId worker) {
  return storage::remove_all(run_folder_ + "/" + stages_of(attempt, worker));
}

arrow::Status Store::collect_leftovers() {
  ARROW_RETURN_NOT_OK(storage::remove_all(run_folder_ + "/" + kStagingName));
  ARROW_RETURN_NOT_OK(storage::remove_temporary_files(run_folder_));
  ARROW_ASSIGN_OR_RAISE(const auto checkpoints, list());
  for (const Published& checkpoint : checkpoints) ARROW_RETURN_NOT_OK(storage::remove_temporary_files(checkpoint.path));
  return arrow::Status::OK();
}

arrow::Result<Manifest> read_manifest(const std::string& checkpoint_path) {
  const std::string path = checkpoint_path + "/" + kManifestName;
  if (!fs::exists(path)) {
    return arrow::Status::IOError(checkpoint_path, " is not a checkpoint of Paceline's: it has no ", kManifestName,
                                  "; read files of your own through Checkpoint::as_directory(), and give the folder "
                                  "itself, such as RUN/checkpoint_000042, not the run's");
  }
  ARROW_ASSIGN_OR_RAISE(const std::string text, storage::read_file(path));
  auto manifest = decode_manifest(text);
  if (!manifest.ok()) return arrow::Status::IOError(path, ": ", manifest.status().message());
  return manifest;
}

arrow::Status check_sizes(const std::string& checkpoint_path, const Manifest& manifest) {
  for (const auto& [name, wanted] : manifest.files) {
    const std::string path = checkpoint_path + "/" + name;
    std::error_code error;
    const auto size = fs::file_size(path, error);
    if (error) {
      return arrow::Status::IOError("checkpoint file ", path, " is missing (", error.message(), "); wanted ",
                                    wanted.size, " bytes");
    }
    if (static_cast<int64_t>(size) != wanted.size) {
      return arrow::Status::IOError("checkpoint file ", path, " has ", size, " bytes; wanted ", wanted.size);
    }
  }
  return arrow::Status::OK();
}

arrow::Status verify(const std::string& checkpoint_path) {
  ARROW_ASSIGN_OR_RAISE(const Manifest manifest, read_manifest(checkpoint_path));
  ARROW_RETURN_NOT_OK(check_sizes(checkpoint_path, manifest));
  for (const auto& [name, wanted] : manifest.files) {
    const std::string path = checkpoint_path + "/" + name;
    ARROW_ASSIGN_OR_RAISE(const auto got, storage::checksum_of_file(path));
    if (got.checksum == wanted.checksum) continue;
    return arrow::Status::IOError("checkpoint file ", path, " is damaged: its checksum is ", got.checksum, ", wanted ",
                                  wanted.checksum);
  }
  return arrow::Status::OK();
}

}  // namespace paceline::checkpoint
