// A process's output on its way from a pipe to the log file and to whoever listens, in whole lines. What progress bars
// show meanwhile goes to whoever listens alone.
#pragma once

#include <arrow/result.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "paceline/agent/line_splitter_internal.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/rpc/messages.h"

namespace paceline::agent {

/// The read end of a pipe on an event loop. Held by shared_ptr, because the loop may hold it too.
///
/// While more than kMostUntaken bytes of a waiting stream have not been taken nothing is read, and so its writer waits.
/// A bar is told at most every kBarInterval. A line that may still be one row of several (LineSplitter::is_held) is
/// told when nothing follows it for kHoldInterval.
class OutputPipe : public std::enable_shared_from_this<OutputPipe> {
 public:
  using OnOutput = std::function<void(rpc::Output)>;
  static constexpr int64_t kMostUntaken = int64_t{256} << 10;
  static constexpr std::chrono::milliseconds kBarInterval{100};
  static constexpr std::chrono::milliseconds kHoldInterval{1000};

  OutputPipe(boost::asio::io_context& loop, Descriptor pipe, std::string stream, bool waits, OnOutput on_output);
  /// Begins to call `on_output`, on the loop's thread, with the lines that are there, and bars.
  void start();
  /// So many bytes of what `on_output` got have been taken.
  void note_taken(int64_t bytes);
  /// Tells what is held: what the process has written elsewhere came after it.
  void release();
  /// Takes what is in the pipe now, with an unfinished last line: what the process has written comes before what it
  /// says next.
  void settle();
  /// As settle(), and closes it; no call of `on_output` after that. For
  /// when the writers have ended: it does not wait for the pipe's end, which an unrelated process may hold open.
  void drain();

 private:
  enum class Read { some, nothing, end };
  /// Reads once, without waiting; adds the number of bytes to `taken`.
  Read read(size_t* taken = nullptr);
  void take_all();
  void tell(Lines lines);
  void tell_bar_soon();
  void release_later();

  boost::asio::posix::stream_descriptor pipe_;
  const std::string stream_;
  const bool waits_;
  OnOutput on_output_;
  LineSplitter splitter_;
  int64_t untaken_ = 0;
  bool paused_ = false;
  boost::asio::steady_timer bar_timer_;
  bool bar_is_due_ = false;  // the timer runs
  std::string told_bar_;
  boost::asio::steady_timer hold_timer_;
};

}  // namespace paceline::agent
