// LineReader: the whole lines of a file that another process may be appending to, from where the last reading ended.
//
// A last line without its newline is not given: it is being written, or torn. Not thread-safe. Errors: IOError with
// path and reason; a file that does not exist (yet) has no lines.
#pragma once

#include <arrow/result.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "paceline/core/posix/descriptor.h"

namespace paceline::storage {

class LineReader {
 public:
  /// Begins at byte `offset`, which must be the start of a line.
  explicit LineReader(std::string path, int64_t offset = 0) : path_(std::move(path)), offset_(offset) {}

  using Take = std::function<arrow::Status(std::string_view line)>;

  /// Gives each line that has come, without its newline, until `take` fails; that line comes again.
  arrow::Status read(const Take& take);
  /// The same, of the lines before byte `end` those of the next 256 KiB; of a longer line the whole.
  arrow::Status read_some(const Take& take, int64_t end = std::numeric_limits<int64_t>::max());
  /// How many bytes read() would look at.
  arrow::Result<int64_t> unread_bytes();
  /// As read(), of as many parts of about the same size as there are takers, side by side: the first part to the first
  /// of them, on the calling thread, each other one on a thread of its own. After an error, of which lines were given
  /// is not known, and all come again.
  arrow::Status read_in_parts(std::span<const Take> takes);
  /// Whether the file under this path is another one now, or shorter than what was read: a reader must begin anew.
  bool was_replaced() const;

  const std::string& path() const { return path_; }
  /// Offset of the byte after the last line given.
  int64_t offset() const { return offset_; }

 private:
  arrow::Status read_block(int64_t& offset, int64_t end, const Take& take) const;
  arrow::Result<int64_t> start_of_line(int64_t from, int64_t end) const;

  std::string path_;
  int64_t offset_;
  Descriptor file_;
};

/// Gives a file's whole lines, without their newlines, from the last to the first, until `take` wants no more. Reads
/// little more than what it gives. A file that does not exist has no lines.
arrow::Status read_lines_from_end(const std::string& path, const std::function<bool(std::string_view line)>& take);

}  // namespace paceline::storage
