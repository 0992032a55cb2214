// Storage: a folder of files, wherever it is: on a local disk, in an object store, in memory.
//
// Names are relative to the folder and '/'-separated, without empty, "." and ".." parts; a folder exists only while
// there are files in it. A file is visible whole or not at all. Once write() or upload() has returned, the file
// survives the process and, except in memory, the machine. Thread-safe. Errors: KeyError for a file that is not there,
// Invalid for an impossible name, IOError for all else; messages name the file as a user would write it.
#pragma once

#include <arrow/result.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/storage/checksum.h"
#include "paceline/storage/location.h"

namespace paceline::storage {

struct FileSize {
  std::string name;
  int64_t size = 0;  // bytes

  bool operator==(const FileSize&) const = default;
};

/// An open file. Thread-safe. In an object store, a file that is replaced by one of another size while it is read may
/// give bytes of either, or zeros.
class FileReader {
 public:
  virtual ~FileReader() = default;
  virtual int64_t size() const = 0;
  /// Reads from `offset` until `buffer` is full or the file ends; gives the bytes read.
  virtual arrow::Result<size_t> read_at(int64_t offset, std::span<std::byte> buffer) const = 0;
};

class Storage {
 public:
  virtual ~Storage() = default;

  /// The file, or the folder itself for "".
  virtual Location location(const std::string& name = "") const = 0;
  /// Makes or replaces a file.
  virtual arrow::Status write(const std::string& name, std::string_view content) = 0;
  /// Makes or replaces a file with the content of a local one, and gives size and checksum of what was read there.
  virtual arrow::Result<FileSum> upload(const std::string& local_file, const std::string& name) = 0;
  /// Makes or replaces a file with the content of another of this storage. In an object store the bytes stay there, but
  /// for those of files that its copying has no room for.
  virtual arrow::Status copy(const std::string& from, const std::string& to) = 0;
  virtual arrow::Result<std::unique_ptr<FileReader>> open(const std::string& name) const = 0;
  /// All files below `folder` ("" for the whole storage), sorted, with names relative to the storage; empty when there
  /// are none.
  virtual arrow::Result<std::vector<FileSize>> list(const std::string& folder = "") const = 0;
  /// Deletes a file; one that is not there is no error.
  virtual arrow::Status remove(const std::string& name) = 0;
  /// Deletes all files below `folder`. An interruption leaves some of them.
  virtual arrow::Status remove_below(const std::string& folder) = 0;
};

/// The storage at a location that resolve_location() gave: a local folder, or an object store with retries
/// (retrying_storage.h). No request is sent to an object store yet. Invalid or IOError for a URI that makes no sense.
arrow::Result<std::shared_ptr<Storage>> open_storage(const Location& location);

/// An object store with the retries that open_storage() gives it. Invalid when PACELINE_STORAGE_RETRY_S is no number of
/// seconds.
arrow::Result<std::shared_ptr<Storage>> with_retries(std::shared_ptr<Storage> objects);

/// The whole file.
arrow::Result<std::string> read_whole(const Storage& storage, const std::string& name);
/// Invalid, naming the file, for what cannot be a name in a storage.
arrow::Status check_name(const std::string& name);

}  // namespace paceline::storage
