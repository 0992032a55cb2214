// Durable, atomic changes to local folders. (Storage, in storage.h, has object stores too.)
//
// Thread-safe: no state. Errors: IOError with path and reason. Each step passes a fail point named in its comment.
#pragma once

#include <arrow/result.h>
#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/posix/descriptor.h"
#include "paceline/storage/checksum.h"

namespace paceline::storage {

/// Opened for reading, closed on exec. What is no regular file (a folder, a named pipe) is an error at once; a file
/// that another process has under a lease is waited for.
arrow::Result<Descriptor> open_for_reading(const std::string& path);
/// Reads at `offset` until `buffer` is full or the file ends; gives the bytes read. `path` is for the message.
arrow::Result<size_t> read_at(const Descriptor& file, const std::string& path, int64_t offset,
                              std::span<std::byte> buffer);
/// The whole file. IOError when it is missing or unreadable.
arrow::Result<std::string> read_file(const std::string& path);

/// Writes `content` to `path` so that a reader sees the old file or the new one, whole: a temporary file beside it,
/// fsync, rename, fsync of the folder. Fail points "write_atomically.before_sync", "…before_rename", "…after_rename".
arrow::Status write_atomically(const std::string& path, std::string_view content);
/// Copies a file to `to`, as write_atomically() writes, and gives size and checksum of the copy.
arrow::Result<FileSum> copy_file_atomically(const std::string& from, const std::string& to);
/// What a file that cannot be read is called when it is set aside, so that nothing is lost: `path` with
/// run_layout::kDamaged behind it, and "_2", "_3", … where there is such a file already.
std::string name_to_set_aside(const std::string& path);
/// Deletes the temporary files that a write_atomically() in `folder` leaves when its process is killed.
arrow::Status remove_temporary_files(const std::string& folder);
/// Whether `path` has the name of such a file.
bool is_temporary_file(std::string_view path);
/// fsync of a file or folder.
arrow::Status sync(const std::string& path);
/// syncfs: everything on the file system that has `path`, others' files too. For so many files that syncing them one by
/// one would take longer.
arrow::Status sync_file_system(const std::string& path);
/// mkdir -p; every new folder's parent is synced.
arrow::Status make_folders(const std::string& path);
/// mkdir -p of folders below `root`, which must be there: one that is moved or deleted meanwhile does not come back.
/// Not synced.
arrow::Status make_folders_below(const std::string& root, const std::string& relative);
/// Renames a folder or file on one file system and syncs both parents. Fail points "move.before_rename",
/// "…after_rename".
arrow::Status move(const std::string& from, const std::string& to);
/// Which file or folder a path leads to: moved, it stays the same, and what comes to its path is another.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileId&) const = default;
};
arrow::Result<FileId> file_id(const std::string& path);
/// Deletes a folder with all that is in it; a missing one is not an error.
arrow::Status remove_all(const std::string& path);

/// Regular files below `folder`, relative to it, sorted. Symbolic links are followed. Invalid for what is neither file
/// nor folder, for links in a circle, and for names that are not UTF-8; empty folders do not appear.
arrow::Result<std::vector<std::string>> files_below(const std::string& folder);

/// A folder for runs from what a user wrote: absolute, relative to `directory`, "~/…", "file://…", with or without a
/// trailing slash. Invalid for other schemes, naming what works. The result is absolute, without a trailing slash.
arrow::Result<std::string> resolve_folder(std::string_view text, const std::string& directory);
/// Makes the folder if need be and proves that a file can be written, synced and read in it.
arrow::Status check_writable(const std::string& folder);

}  // namespace paceline::storage
