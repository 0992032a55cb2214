// Cache: contents of files on this machine, each under its SHA-256, so that what has travelled once travels no more.
//
// A content appears under its name when it is whole and its sum is right, by a rename; so processes may share a folder,
// also on a disk of several machines. Contents are the user's alone, and executable, for they become programs by hard
// links. Nothing is ever changed but the time of the last use. Thread-safe.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "paceline/core/posix/descriptor.h"
#include "paceline/core/sha256.h"

namespace paceline::package {

/// `$XDG_CACHE_HOME/paceline/packages`, else `~/.cache/paceline/packages`; Invalid for a user without a home.
arrow::Result<std::string> cache_folder();

class Cache {
 public:
  /// A content that comes in parts. Its file goes with it unless finish() has succeeded.
  class Writer {
   public:
    Writer(Writer&&) = default;
    Writer& operator=(Writer&&) = delete;
    ~Writer();

    int64_t written() const { return written_; }
    /// IOError: the disk is full, and the like.
    arrow::Status add(std::string_view bytes);
    /// Puts it under its name. Invalid where its sum is another.
    arrow::Status finish();

   private:
    friend class Cache;
    Writer(std::string path, std::string target, std::string wanted, Descriptor file, Sha256 sum);
    std::string path_;
    std::string target_;
    std::string wanted_;
    Descriptor file_;
    Sha256 sum_;
    int64_t written_ = 0;
  };

  /// Makes the folder, for this user alone, where it is not there.
  static arrow::Result<Cache> open(std::string folder);

  const std::string& folder() const { return folder_; }
  /// Where the content is, or would be.
  std::string path_of(const std::string& sha256) const { return folder_ + "/" + sha256; }
  /// Whether a content of so many bytes is there; it counts as used now.
  bool has(const std::string& sha256, int64_t bytes) const;
  arrow::Result<Writer> write(const std::string& sha256) const;
  /// Puts a copy of what is in the file there, and gives its sum.
  arrow::Result<std::string> add_file(const std::string& path) const;

  /// Deletes what was used longest ago until at most so many bytes are left; what was used within the last hour stays.
  /// Remains of writers that were killed go as well.
  void trim(int64_t most_bytes) const;

 private:
  explicit Cache(std::string folder) : folder_(std::move(folder)) {}
  std::string folder_;
};

/// What a cache keeps for later runs.
inline constexpr int64_t kMostCachedBytes = int64_t{20} << 30;

}  // namespace paceline::package
