// Folders of blocks of a cache on a disk: which are a cache's own, who uses them, and what of them may be removed.
//
// A cache's own folder is called by 16 hexadecimal digits and has a file that marks it. That file is locked (flock)
// while a program uses the folder, so the kernel knows it even of one that is killed. Of such folders only files with
// names that a cache gives are counted and removed, and symbolic links are not followed: whatever else is in the
// user's folder is not touched. A block's file is locked as long as it is being written, under another name.
//
// Any thread may call the functions, and so may other processes at the same time.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/posix/descriptor.h"

namespace paceline::data {

/// Makes the folder if need be, for its user alone, and marks it as just used. It is in use as long as the descriptor
/// is open here or in a fork.
arrow::Result<Descriptor> use_cache_folder(const std::filesystem::path& folder);

/// A cache's own folder.
struct CacheFolder {
  std::filesystem::path path;
  int64_t used_at = 0;  ///< nanoseconds since 1970: when use_cache_folder() was last called
  int64_t bytes = 0;    ///< of its blocks
};
/// Those in `path`, the one that was used longest ago first. Removes unfinished files that nobody writes any more.
std::vector<CacheFolder> cache_folders(const std::filesystem::path& path);
/// Removes a cache's own folder with its blocks; false where it is in use.
bool drop_cache_folder(const std::filesystem::path& folder);

/// Bytes of the block's file; 0 where there is none.
int64_t bytes_of_block(const std::filesystem::path& folder, int64_t block);
/// Writes the block's file, which is there whole or not at all. `errno` tells of an IOError: ENOENT where the folder
/// has gone.
arrow::Status write_block(const std::filesystem::path& folder, int64_t block, std::string_view first,
                          std::string_view then);
/// All of the block's file. An error where it is no regular file.
arrow::Result<std::shared_ptr<arrow::Buffer>> read_block(const std::filesystem::path& folder, int64_t block);

}  // namespace paceline::data
