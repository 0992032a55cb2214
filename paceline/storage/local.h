// Durable, atomic changes to local folders. (Object stores join behind the same calls with storage by URI.)
//
// Thread-safe: no state. Errors: IOError with path and reason. Each step passes a fail point named in its comment.
#pragma once

#include <arrow/result.h>

#include <string>
#include <string_view>

namespace paceline::storage {

/// Writes `content` to `path` so that a reader sees the old file or the new one, whole: a temporary file beside it,
/// fsync, rename, fsync of the folder. Fail points "write_atomically.before_sync", "…before_rename", "…after_rename".
arrow::Status write_atomically(const std::string& path, std::string_view content);
/// The whole file. IOError when it is missing or unreadable.
arrow::Result<std::string> read_file(const std::string& path);
/// fsync of a file or folder.
arrow::Status sync(const std::string& path);
/// mkdir -p; the deepest new folder's parent is synced.
arrow::Status make_folders(const std::string& path);
/// Renames a folder or file on one file system and syncs both parents. Fail points "move.before_rename", "…after_rename".
arrow::Status move(const std::string& from, const std::string& to);
/// Deletes a folder with all that is in it; a missing one is not an error.
arrow::Status remove_all(const std::string& path);

/// A folder for runs from what a user wrote: absolute, relative to `directory`, "~/…", "file://…", with or without a
/// trailing slash. Invalid for other schemes, naming what works. The result is absolute, without a trailing slash.
arrow::Result<std::string> resolve_folder(std::string_view text, const std::string& directory);
/// Makes the folder if need be and proves that a file can be written, synced and read in it.
arrow::Status check_writable(const std::string& folder);

}  // namespace paceline::storage
