// StandardOutput: the driver's standard output, or what its program has put in its place, for what workers write there,
// on a thread of its own: a reader that is slow holds up neither the controller nor, for long, anybody but the workers
// that write.
//
// Threading: the controller's thread. Destroying it leaves out what has not been written, within microseconds, also
// when the reader does not read. Text is kept until it is written, so whoever gives it bounds how much there is:
// workers wait for OutputTaken.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "paceline/controller/inbox.h"
#include "paceline/core/posix/descriptor.h"
#include "paceline/track/terminal.h"

namespace paceline::controller {

class StandardOutput {
 public:
  /// `inbox` outlives it. `sink`: what takes the place of the process's standard output; empty for that one. Destroying
  /// the object waits for a call of it that has begun.
  explicit StandardOutput(Inbox& inbox, track::TextSink sink = nullptr);
  ~StandardOutput();
  StandardOutput(const StandardOutput&) = delete;

  /// Writes the text after what was given before; then `written` comes into the inbox. Nothing is written any more when
  /// the reader has gone, and the run goes on: its logs have everything.
  void write(std::string text, OutputWritten written);
  /// Whether something has been given that is not written yet.
  bool is_behind() const;

 private:
  struct Text {
    std::string text;
    OutputWritten written;
  };
  void write_all();
  bool write_out(std::string_view text);
  bool wait_for_room();

  Inbox& inbox_;
  const track::TextSink sink_;
  mutable std::mutex mutex_;
  std::condition_variable given_;
  std::deque<Text> waiting_;  // the first is being written
  bool leaving_ = false;
  Descriptor leave_;    // an eventfd: no writing is waited for any more
  std::thread thread_;  // from the first text on
};

}  // namespace paceline::controller
