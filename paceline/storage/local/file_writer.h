// FileWriter: a new file, written from front to back in large portions and summed on the way, without extra copies.
//
// Not thread-safe. The file is not synced: callers write all files of a folder first, then sync each, so that the disk
// works on them together. Errors: IOError with path and reason. Fail point "file_writer.write" before each write.
#pragma once

#include <arrow/result.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/posix/descriptor.h"
#include "paceline/storage/checksum.h"

namespace paceline::storage {

class FileWriter {
 public:
  /// IOError when the file exists.
  static arrow::Result<FileWriter> create(const std::string& path, mode_t mode = 0666);

  /// Appends `bytes`, which must stay unchanged until flush() or finish(). `part`, if given, is updated with them too.
  arrow::Status append(std::span<const std::byte> bytes, Checksum* part = nullptr);
  arrow::Status flush();
  /// Flushes and closes; size and checksum of the whole file.
  arrow::Result<FileSum> finish();

 private:
  friend arrow::Result<FileSum> copy_file(const std::string& from, const std::string& to);
  FileWriter(Descriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  void start_disk();

  Descriptor file_;
  std::string path_;
  Checksum checksum_;
  int64_t size_ = 0;
  int64_t started_ = 0;         // bytes that the disk was told to write
  std::vector<iovec> pending_;  // summed, not yet written
  size_t pending_bytes_ = 0;
};

/// Copies a file with its permissions, reflinked where the file system can, and gives size and checksum of the copy.
/// The copy is not synced. IOError when `to` exists.
arrow::Result<FileSum> copy_file(const std::string& from, const std::string& to);

}  // namespace paceline::storage
