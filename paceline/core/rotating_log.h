// RotatingLog: a file of lines that grows to a limit, and then becomes the first of those before it.
//
// Not thread-safe. A file that cannot be written loses lines, never a run.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/posix/descriptor.h"

namespace paceline {

/// Appends lines to a file, all of one call in one write.
///
/// With a limit, a file that would grow beyond it becomes PATH.1, what was that PATH.2, and so on; of the files the
/// last `most_files` stay, PATH itself included. Lines are never divided, so a line longer than the limit makes a file
/// that is.
class RotatingLog {
 public:
  struct Limit {
    /// 0: none.
    int64_t file_bytes = 0;
    int64_t most_files = 1;
  };
  /// "" is a log without a file. IOError when the file cannot be opened.
  static arrow::Result<RotatingLog> open(const std::string& path, const Limit& limit);
  void append(const std::vector<std::string>& lines);

 private:
  RotatingLog(Descriptor file, std::string path, const Limit& limit, int64_t size)
      : file_(std::move(file)), path_(std::move(path)), limit_(limit), size_(size) {}
  void write(std::string_view text);
  void rotate();

  Descriptor file_;
  std::string path_;
  Limit limit_;
  int64_t size_ = 0;
};

}  // namespace paceline
