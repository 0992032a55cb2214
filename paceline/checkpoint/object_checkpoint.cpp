#include "paceline/checkpoint/object_checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "paceline/checkpoint/damage.h"
#include "paceline/core/fail_point.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/local/file_writer.h"
#include "paceline/storage/objects/parallel.h"

namespace paceline::checkpoint {
namespace {

// In a folder that is not called after its report.
constexpr const char* kUnderWay = ".under_way";

constexpr size_t kReadAtOnce = size_t{32} << 20;  // bytes in memory for each file that is read

std::string shown(const storage::Storage& storage, const std::string& name) {
  return storage.location(name).text();
}

arrow::Status check_sum(const std::string& file, const storage::FileSum& got, const FileEntry& wanted) {
  if (got.size != wanted.size) return wrong_size(file, got.size, wanted.size);
  return got.checksum == wanted.checksum ? arrow::Status::OK() : wrong_checksum(file, got.checksum, wanted.checksum);
}

// Reads a whole file through `take`, and gives size and checksum.
template <class Take>
arrow::Result<storage::FileSum> read_through(const storage::FileReader& file, const Take& take) {
  storage::Checksum checksum;
  std::vector<std::byte> buffer(std::min(kReadAtOnce, static_cast<size_t>(file.size())));
  for (int64_t done = 0; done < file.size();) {
    ARROW_ASSIGN_OR_RAISE(const size_t count, file.read_at(done, buffer));
    const auto bytes = std::span(buffer).first(count);
    checksum.update(bytes);
    ARROW_RETURN_NOT_OK(take(bytes));
    if (count == 0) break;
    done += static_cast<int64_t>(count);
  }
  return storage::FileSum{.size = file.size(), .checksum = checksum.hex()};
}

arrow::Status download_file(const storage::Storage& from, const std::string& name, const std::string& to,
                            const FileEntry* wanted) {
  auto opened = from.open(name);
  if (opened.status().IsKeyError() && wanted != nullptr) return missing_file(shown(from, name), wanted->size);
  ARROW_ASSIGN_OR_RAISE(const auto file, std::move(opened));
  ARROW_RETURN_NOT_OK(storage::make_folders(std::filesystem::path(to).parent_path().string()));
  ARROW_ASSIGN_OR_RAISE(auto writer, storage::FileWriter::create(to));
  ARROW_ASSIGN_OR_RAISE(const auto sum, read_through(*file, [&](std::span<const std::byte> bytes) -> arrow::Status {
                          ARROW_RETURN_NOT_OK(writer.append(bytes));
                          return writer.flush();
                        }));
  ARROW_RETURN_NOT_OK(writer.finish());
  return wanted == nullptr ? arrow::Status::OK() : check_sum(shown(from, name), sum, *wanted);
}

arrow::Status mark(storage::Storage& run, const std::string& folder) {
  if (run_layout::is_checkpoint_folder(folder)) return arrow::Status::OK();
  return run.write(folder + "/" + kUnderWay, "a checkpoint of Paceline's is being published or deleted here\n");
}

// Whether the folder, which has these files, may become a checkpoint; a damaged manifest in it is deleted.
arrow::Status claim_folder(storage::Storage& run, const std::string& folder,
                           const std::vector<storage::FileSize>& files) {
  const auto has = [&](const std::string& name) {
    return std::ranges::any_of(files, [&](const auto& file) { return file.name == folder + "/" + name; });
  };
  if (has(kManifestName) || has(kFirstManifestName)) {
    const auto found = find_object_manifest(run, folder);
    if (found.ok()) return name_is_taken(shown(run, folder), folder, found->manifest);
    if (found.status().IsInvalid()) return run.remove(folder + "/" + kManifestName);
    if (!found.status().IsKeyError()) return name_is_taken(shown(run, folder), folder, found.status());
  }
  if (files.empty() || run_layout::is_checkpoint_folder(folder) || has(kUnderWay)) return arrow::Status::OK();
  return name_is_used(shown(run, folder));
}

}  // namespace

arrow::Status publish_objects(storage::Storage& run, const std::string& folder, const std::vector<StagedFile>& files,
                              const Manifest& manifest) {
  ARROW_RETURN_NOT_OK(fail_point("objects.before_upload"));
  ARROW_ASSIGN_OR_RAISE(const auto before, run.list(folder));
  ARROW_RETURN_NOT_OK(claim_folder(run, folder, before));
  ARROW_RETURN_NOT_OK(mark(run, folder));
  ARROW_RETURN_NOT_OK(storage::for_each_in_parallel(files.size(), [&](size_t index) -> arrow::Status {
    const StagedFile& file = files[index];
    if (file.is_sent) {
      ARROW_RETURN_NOT_OK(run.copy(file.path, folder + "/" + file.name));
      return fail_point("objects.after_file");
    }
    ARROW_ASSIGN_OR_RAISE(const auto sum, run.upload(file.path, folder + "/" + file.name));
    ARROW_RETURN_NOT_OK(fail_point("objects.after_file"));
    const auto wanted = manifest.files.find(file.name);
    return wanted == manifest.files.end() ? arrow::Status::OK() : check_sum(file.path, sum, wanted->second);
  }));
  std::set<std::string> named;
  for (const StagedFile& file : files) named.insert(folder + "/" + file.name);
  named.insert(folder + "/" + kUnderWay);
  for (const auto& file : before) {
    if (!named.contains(file.name)) ARROW_RETURN_NOT_OK(run.remove(file.name));
  }
  ARROW_RETURN_NOT_OK(fail_point("objects.before_manifest"));
  const std::string text = encode_manifest(manifest);
  arrow::Status written = run.write(folder + "/" + kManifestName, text);
  // The answer may have been lost.
  if (!written.ok() && storage::read_whole(run, folder + "/" + kManifestName).ValueOr("") != text) return written;
  // It is published: what goes wrong from here on is no error.
  (void)fail_point("objects.after_manifest");
  if (!run_layout::is_checkpoint_folder(folder)) (void)run.remove(folder + "/" + kUnderWay);
  return arrow::Status::OK();
}

arrow::Result<ObjectFolders> list_object_folders(const storage::Storage& run) {
  ARROW_ASSIGN_OR_RAISE(const auto files, run.list());
  ObjectFolders folders;
  for (const auto& file : files) {
    const size_t slash = file.name.find('/');
    if (slash != std::string::npos)
      folders.checkpoints[file.name.substr(0, slash)][file.name.substr(slash + 1)] = file.size;
  }
  // A file of the user's own may have the name that the first version's manifests had.
  std::set<std::string> of_first_version;
  for (const auto& [name, sizes] : folders.checkpoints) {
    if (sizes.contains(kManifestName) || !sizes.contains(kFirstManifestName)) continue;
    const auto found = find_object_manifest(run, name);
    if (found.ok()) of_first_version.insert(name);
    if (!found.ok() && !found.status().IsKeyError()) return found.status();
  }
  std::erase_if(folders.checkpoints, [&](const auto& folder) {
    const auto& [name, sizes] = folder;
    if (sizes.contains(kManifestName) || of_first_version.contains(name)) return false;
    if (sizes.contains(kUnderWay) || run_layout::is_checkpoint_folder(name)) folders.leftovers.push_back(name);
    return true;
  });
  return folders;
}

arrow::Status remove_objects(storage::Storage& run, const std::string& folder) {
  ARROW_RETURN_NOT_OK(mark(run, folder));
  for (const char* manifest : {kManifestName, kFirstManifestName}) {
    ARROW_RETURN_NOT_OK(run.remove(folder + "/" + manifest));
  }
  ARROW_RETURN_NOT_OK(fail_point("objects.after_manifest_removed"));
  return run.remove_below(folder);
}

arrow::Result<FoundManifest> find_object_manifest(const storage::Storage& storage, const std::string& folder) {
  return find_manifest([&](const std::string& name) {
    return storage::read_whole(storage, folder.empty() ? name : folder + "/" + name);
  });
}

arrow::Status check_object_sizes(const storage::Storage& checkpoint, const Manifest& manifest) {
  ARROW_ASSIGN_OR_RAISE(const auto files, checkpoint.list());
  std::map<std::string, int64_t> sizes;
  for (const auto& file : files) sizes[file.name] = file.size;
  for (const auto& [name, wanted] : manifest.files) {
    const auto got = sizes.find(name);
    if (got == sizes.end()) return missing_file(shown(checkpoint, name), wanted.size);
    if (got->second != wanted.size) return wrong_size(shown(checkpoint, name), got->second, wanted.size);
  }
  return arrow::Status::OK();
}

bool has_files(const Manifest& manifest, const std::map<std::string, int64_t>& sizes) {
  return std::ranges::all_of(manifest.files, [&](const auto& wanted) {
    const auto got = sizes.find(wanted.first);
    return got != sizes.end() && got->second == wanted.second.size;
  });
}

arrow::Status verification_given_up(const std::string& checkpoint) {
  return arrow::Status::Cancelled("checkpoint ", checkpoint, " is not verified to its end: nobody waits for it");
}

arrow::Status verify_objects(const storage::Storage& checkpoint, const Manifest& manifest,
                             const std::stop_token& given_up) {
  ARROW_RETURN_NOT_OK(check_object_sizes(checkpoint, manifest));
  const std::vector<std::pair<std::string, FileEntry>> files(manifest.files.begin(), manifest.files.end());
  return storage::for_each_in_parallel(files.size(), [&](size_t index) -> arrow::Status {
    const auto& [name, wanted] = files[index];
    auto opened = checkpoint.open(name);
    if (opened.status().IsKeyError()) return missing_file(shown(checkpoint, name), wanted.size);
    ARROW_ASSIGN_OR_RAISE(const auto file, std::move(opened));
    ARROW_ASSIGN_OR_RAISE(const auto sum, read_through(*file, [&](std::span<const std::byte>) {
                            return given_up.stop_requested() ? verification_given_up(shown(checkpoint, ""))
                                                             : arrow::Status::OK();
                          }));
    return check_sum(shown(checkpoint, name), sum, wanted);
  });
}

arrow::Status download_objects(const storage::Storage& checkpoint, const std::string& folder) {
  ARROW_ASSIGN_OR_RAISE(const auto listed, checkpoint.list());
  if (listed.empty()) {
    return arrow::Status::IOError("there is no folder ", shown(checkpoint, ""), ", or it has no files");
  }
  std::map<std::string, std::optional<FileEntry>> files;
  for (const auto& file : listed) files[file.name] = std::nullopt;
  files.erase(kUnderWay);
  if (files.contains(kManifestName) || files.contains(kFirstManifestName)) {
    const auto found = find_object_manifest(checkpoint);
    if (found.ok()) {
      for (const auto& [name, wanted] : found->manifest.files) files[name] = wanted;
    } else if (!found.status().IsKeyError()) {
      return arrow::Status::IOError(shown(checkpoint, ""), "/", found.status().message());
    }
  }
  const std::vector<std::pair<std::string, std::optional<FileEntry>>> wanted(files.begin(), files.end());
  const std::string temporary = folder + "." + std::to_string(::getpid()) + ".download";
  ARROW_RETURN_NOT_OK(storage::remove_all(temporary));
  ARROW_RETURN_NOT_OK(storage::make_folders(temporary));
  arrow::Status status = storage::for_each_in_parallel(wanted.size(), [&](size_t index) {
    const auto& [name, entry] = wanted[index];
    return download_file(checkpoint, name, temporary + "/" + name, entry ? &*entry : nullptr);
  });
  if (status.ok() && ::rename(temporary.c_str(), folder.c_str()) != 0) {
    status = errno_status("renaming " + temporary + " to " + folder);
  }
  if (!status.ok()) (void)storage::remove_all(temporary);  // the first error says more
  return status;
}

}  // namespace paceline::checkpoint
