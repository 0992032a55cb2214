// AppendFile: a file that only grows, each time by the whole of what is appended or not at all.
//
// Not thread-safe; one writer. Errors: IOError with path and reason.
#pragma once

#include <arrow/result.h>

#include <functional>
#include <string>
#include <string_view>

#include "paceline/core/posix/descriptor.h"

namespace paceline::track {

class AppendFile {
 public:
  /// Opens the file at its end, or makes it.
  static arrow::Result<AppendFile> open(const std::string& path);
  /// On an error nothing of `bytes` stays in the file.
  arrow::Status append(std::string_view bytes);
  /// What was appended survives a crash of the machine.
  arrow::Status sync();
  /// Cuts off what a kill has left behind the last newline.
  arrow::Status cut_torn_line();
  /// The last whole line of which `is_wanted` says so, without its newline; "" when there is none.
  arrow::Result<std::string> last_line(const std::function<bool(std::string_view)>& is_wanted = [](std::string_view) {
    return true;
  }) const;

  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  AppendFile(Descriptor file, std::string path, int64_t size)
      : file_(std::move(file)), path_(std::move(path)), size_(size) {}
  /// Position of the last newline before `end`; -1 for none.
  arrow::Result<int64_t> newline_before(int64_t end) const;
  arrow::Status cut(int64_t size);

  Descriptor file_;
  std::string path_;
  int64_t size_ = 0;
};

}  // namespace paceline::track
