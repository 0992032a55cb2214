// A process's output on its way from a pipe to the log file and to whoever listens, in whole lines.
#pragma once

#include <arrow/result.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/posix/descriptor.h"

namespace paceline::agent {

using Lines = std::vector<std::string>;

/// Cuts bytes into lines without their ends. A line beyond kMaxBytes is cut there. Bytes stay as they are, whatever
/// their encoding.
class LineSplitter {
 public:
  static constexpr size_t kMaxBytes = size_t{64} << 10;

  /// The lines that `bytes` completes.
  Lines feed(std::string_view bytes);
  /// The line without an end that is left, if any.
  Lines finish();

 private:
  std::string rest_;
};

/// Appends lines to a file, all of one call in one write. A file that cannot be written loses lines, never a run.
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
  void append(const Lines& lines);

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

/// The read end of a pipe on an event loop. Held by shared_ptr, because the loop may hold it too.
class OutputPipe : public std::enable_shared_from_this<OutputPipe> {
 public:
  using OnLines = std::function<void(Lines)>;

  OutputPipe(boost::asio::io_context& loop, Descriptor pipe, OnLines on_lines);
  /// Begins to call `on_lines`, on the loop's thread, with the lines that are there.
  void start();
  /// Takes what is in the pipe now, with an unfinished last line, and closes it; no call of `on_lines` after that. For
  /// when the writers have ended: it does not wait for the pipe's end, which an unrelated process may hold open.
  void drain();

 private:
  enum class Read { some, nothing, end };
  /// Reads once, without waiting; adds the number of bytes to `taken`.
  Read read(size_t* taken = nullptr);

  boost::asio::posix::stream_descriptor pipe_;
  OnLines on_lines_;
  LineSplitter splitter_;
};

}  // namespace paceline::agent
