// StandardOutput: the driver's standard output, for what workers write there, on a thread of its own: a reader that is
// slow holds up neither the controller nor, for long, anybody but the workers that write.
//
// Threading: the controller's thread. Text is kept until it is written, so whoever gives it bounds how much there is:
// workers wait for OutputTaken.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "paceline/controller/inbox.h"

namespace paceline::controller {

class StandardOutput {
 public:
  /// `inbox` outlives it.
  explicit StandardOutput(Inbox& inbox) : inbox_(inbox) {}
  ~StandardOutput();
  StandardOutput(const StandardOutput&) = delete;

  /// Writes the text after what was given before; then `written` comes into the inbox. Nothing is written any more when
  /// the reader has gone, and the run goes on: its logs have everything.
  void write(std::string text, OutputWritten written);
  /// Whether something has been given that is not written yet.
  bool is_behind() const;
  /// Waits until everything is written. Nothing may be given afterwards.
  void finish();

 private:
  struct Text {
    std::string text;
    OutputWritten written;
  };
  void write_all();

  Inbox& inbox_;
  mutable std::mutex mutex_;
  std::condition_variable given_;
  std::deque<Text> waiting_;  // the first is being written
  bool finished_ = false;
  std::thread thread_;  // from the first text on
};

}  // namespace paceline::controller
