#include "paceline/checkpoint/checkpoint.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "paceline/checkpoint/manifest.h"
#include "paceline/checkpoint/object_checkpoint.h"
#include "paceline/core/error.h"
#include "paceline/core/json.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/local/file_writer.h"
#include "paceline/storage/storage.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

std::string make_temporary_folder() {
  std::string path = (fs::temp_directory_path() / "paceline_checkpoint_tmp_XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) throw_if_error(errno_status("making folder " + path));
  return path;
}

arrow::Status copy_files(const std::string& from, const std::string& to) {
  ARROW_ASSIGN_OR_RAISE(const auto files, storage::files_below(from));
  for (const std::string& file : files) {
    std::error_code error;
    const fs::path target = fs::path(to) / file;
    fs::create_directories(target.parent_path(), error);
    fs::remove(target, error);
    ARROW_RETURN_NOT_OK(storage::copy_file(from + "/" + file, target.string()));
  }
  return arrow::Status::OK();
}

// The folder of a checkpoint in an object store while somebody uses it; the last to let go deletes it.
std::shared_ptr<const std::string> downloaded(const storage::Location& location) {
  struct Download {
    std::mutex mutex;  // one downloads, the others wait
    std::weak_ptr<const std::string> folder;
  };
  static std::mutex mutex;
  static auto* downloads = new std::map<std::string, std::shared_ptr<Download>>;  // for threads that outlive main()
  std::shared_ptr<Download> download;
  {
    const std::lock_guard lock(mutex);
    auto& known = (*downloads)[location.with_credentials()];
    if (!known) known = std::make_shared<Download>();
    download = known;
  }
  const std::lock_guard lock(download->mutex);
  if (auto folder = download->folder.lock()) return folder;
  const std::shared_ptr<const std::string> folder(new std::string(make_temporary_folder()),
                                                  [](const std::string* path) {
                                                    (void)storage::remove_all(*path);
                                                    delete path;
                                                  });
  throw_if_error(checkpoint::download_objects(*value_or_throw(storage::open_storage(location)), *folder));
  download->folder = folder;
  return folder;
}

[[noreturn]] void throw_missing(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error)) throw StorageError("a checkpoint is a folder, but " + path + " is a file");
  if (fs::exists(fs::path(path).parent_path() / run_layout::kJournal, error)) {
    throw StorageError("the checkpoint " + path +
                       " is gone: it was superseded (CheckpointConfig.num_to_keep), published under another name or "
                       "deleted; use get_checkpoint(), or Result.checkpoint, for the latest");
  }
  throw StorageError("there is no folder " + path +
                     " for a checkpoint: wrong name, or a temporary folder that is closed already");
}

Json object_or_throw(const Json& metadata) {
  if (!metadata.is_object())
    throw ConfigError("metadata of a checkpoint is a JSON object; got: " + encode_json(metadata));
  return metadata;
}

}  // namespace

Checkpoint Checkpoint::from_directory(const std::string& path) {
  const storage::Location location = value_or_throw(storage::resolve_here(path));
  if (location.is_uri()) {
    if (value_or_throw(value_or_throw(storage::open_storage(location))->list()).empty()) {
      throw StorageError("there are no files below \"" + location + "\" to make a checkpoint of");
    }
    return Checkpoint(location);
  }
  std::error_code error;
  if (!fs::is_directory(location.text(), error)) {
    throw StorageError("there is no folder \"" + location.text() + "\" to make a checkpoint of");
  }
  return Checkpoint(location);
}

const std::string& Checkpoint::path() const {
  if (staged_.valid()) staged_.get();
  return location_.text();
}

void Checkpoint::require_files(const char* function) const {
  if (!is_elsewhere()) return;
  throw UsageError(std::string(function) +
                   " was called on a rank that Checkpoint::save() let write nothing; call it on rank 0, or report the "
                   "checkpoint and use get_checkpoint() once it is published");
}

std::string Checkpoint::to_directory(const std::string& path) const {
  require_files("Checkpoint.to_directory()");
  const std::string target = path.empty() ? make_temporary_folder() : fs::absolute(path).string();
  throw_if_error(storage::make_folders(target));
  throw_if_error(copy_files(*as_directory(), target));
  return target;
}

std::shared_ptr<const std::string> Checkpoint::as_directory() const {
  require_files("Checkpoint.as_directory()");
  if (const auto& location = CheckpointAccess::location(*this); location.is_uri()) return downloaded(location);
  std::error_code error;
  if (!fs::is_directory(path(), error)) throw_missing(path());
  return std::make_shared<const std::string>(path());
}

Json Checkpoint::get_metadata() const {
  if (is_elsewhere()) return Json::object();
  const storage::Location& location = CheckpointAccess::location(*this);
  const auto text = storage::read_whole(*value_or_throw(storage::open_storage(location)), checkpoint::kMetadataName);
  if (text.status().IsKeyError()) return Json::object();
  auto metadata = decode_json(value_or_throw(text));
  if (!metadata.ok()) {
    throw StorageError(storage::join(location, checkpoint::kMetadataName) + ": " + metadata.status().message());
  }
  return *std::move(metadata);
}

void Checkpoint::set_metadata(const Json& metadata) {
  const std::string text = encode_json(object_or_throw(metadata)) + "\n";
  if (is_too_deep(metadata)) {
    throw ConfigError("a checkpoint's metadata are nested more than " + std::to_string(kDeepestJson) +
                      " levels deep, which nothing could read again");
  }
  if (is_elsewhere()) return;
  throw_if_error(
      value_or_throw(storage::open_storage(CheckpointAccess::location(*this)))->write(checkpoint::kMetadataName, text));
}

void Checkpoint::update_metadata(const Json& metadata) {
  Json merged = get_metadata();
  merged.update(object_or_throw(metadata));
  set_metadata(merged);
}

}  // namespace paceline
