// Which files a dataset is made of: from what a user wrote to a list of files.
//
// No state; any thread may call these. Both ask the file system, which for object stores are requests.
#pragma once

#include <arrow/filesystem/type_fwd.h>
#include <arrow/result.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::data {

/// A place in a file system. `path` is as the file system has it: absolute for the local one, "bucket/folder" for S3.
struct Place {
  std::shared_ptr<arrow::fs::FileSystem> file_system;
  std::string path;
};

/// Opens what a user wrote: a local path (absolute, relative to the current directory, "~/…", "file://…") or a place in
/// an object store as storage/objects/scheme.h lists them; "s3://anonymous@bucket/…" reads without keys what is open to
/// all. The path may be a glob, except that "?" begins the options of a URI. It need not exist. Invalid for other
/// schemes, naming what works; messages never have a key of a URI.
///
///     ARROW_ASSIGN_OR_RAISE(const Place place, open_location("s3://bucket/images?region=eu-west-1"));
///     ARROW_ASSIGN_OR_RAISE(const auto files, list_files(*place.file_system, {place.path}));
arrow::Result<Place> open_location(std::string_view text);

struct ListOptions {
  /// Only files whose name ends with one of these: "csv" or "csv.gz", without the dot before it, in upper or lower
  /// case. For what folders and globs give; a file that is named itself is always taken. Empty: all files.
  std::vector<std::string> file_extensions;
  /// Leaves out paths that do not exist and globs that match nothing. Otherwise they are errors.
  bool ignore_missing_paths = false;
};

/// The files of each path, in the order of the paths and sorted by name within each. A path is one of:
///
/// - a file;
/// - a folder: all files in it and in its folders, except those with a name that begins with "." or "_" on the way,
///   which are what programs keep for themselves (_SUCCESS, .crc);
/// - a glob: "*" is any text without "/", "?" one character, "[a-z]" one of these, "[!a-z]" one of all others, and
///   "**" as a whole name any number of folders, also none. A wildcard at the beginning of a name does not stand for
///   "." or "_". A folder that matches means the files in it, unless the glob has "**". What exists under exactly
///   that name is that file or folder, and no glob.
///
/// A file that is named twice is there twice. IOError where a path is missing, or where no file is left; the message
/// names the path and says what to do.
arrow::Result<std::vector<arrow::fs::FileInfo>> list_files(arrow::fs::FileSystem& file_system,
                                                           const std::vector<std::string>& paths,
                                                           const ListOptions& options = {});

}  // namespace paceline::data
