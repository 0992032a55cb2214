// Checkpoints in an object store: published, listed, verified and deleted there, and downloaded.
//
// An object store has no rename. So the files of a checkpoint go straight to their final names, several at once; what
// else lies below the checkpoint's name is deleted; the manifest is written last, and is deleted first. A folder is a
// checkpoint exactly while its manifest is there. One that is not called after its report could be somebody else's: a
// mark in it says that a publication or deletion is under way there, and only what is marked is deleted. Fail points:
// "objects.before_upload", "objects.after_file", "objects.before_manifest", "objects.after_manifest",
// "objects.after_manifest_removed". Errors: as in store.h.
#pragma once

#include <arrow/result.h>

#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "paceline/checkpoint/manifest.h"
#include "paceline/storage/storage.h"

namespace paceline::checkpoint {

/// A file of a new checkpoint: its name there, and where it is.
struct StagedFile {
  std::string name;
  /// Local; of one that is there already, its name in the run's object store.
  std::string path;
  bool is_sent = false;
};

/// Publishes `files` below `folder`. What was uploaded must be what the manifest says; the user's notes are in no
/// manifest and are uploaded as they are. AlreadyExists when there is a checkpoint, or something else that Paceline has
/// not left there. Once the manifest stands the checkpoint is published, and there is no error any more.
arrow::Status publish_objects(storage::Storage& run, const std::string& folder, const std::vector<StagedFile>& files,
                              const Manifest& manifest);
/// Folders directly below the run's.
struct ObjectFolders {
  /// Those with a manifest, and what lies in each: bytes by name.
  std::map<std::string, std::map<std::string, int64_t>> checkpoints;
  /// Names of those in which a publication or deletion was interrupted.
  std::vector<std::string> leftovers;
};
arrow::Result<ObjectFolders> list_object_folders(const storage::Storage& run);
/// Deletes a checkpoint, or what is left of one.
arrow::Status remove_objects(storage::Storage& run, const std::string& folder);

/// find_manifest() in a folder of a storage.
arrow::Result<FoundManifest> find_object_manifest(const storage::Storage& storage, const std::string& folder = "");
/// Finds missing and truncated files with one listing.
arrow::Status check_object_sizes(const storage::Storage& checkpoint, const Manifest& manifest);
/// Whether all the manifest's files are among these, with their sizes.
bool has_files(const Manifest& manifest, const std::map<std::string, int64_t>& sizes);
/// Reads every file and compares its checksum. Cancelled soon after `given_up` says so.
arrow::Status verify_objects(const storage::Storage& checkpoint, const Manifest& manifest,
                             const std::stop_token& given_up = {});
/// What verify() says then.
arrow::Status verification_given_up(const std::string& checkpoint);

/// Downloads a checkpoint, or any folder of files, to the local `folder`, which is empty or not there: whole, or not at
/// all (a folder beside it that is renamed). Files that a manifest names are compared with it on the way.
arrow::Status download_objects(const storage::Storage& checkpoint, const std::string& folder);

}  // namespace paceline::checkpoint
