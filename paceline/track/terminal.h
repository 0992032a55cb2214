// Terminal: what the driver shows of a run. Plain lines when piped; in a terminal one live status line below them.
//
// Thread-safe. Colours and the live line only where standard error is a terminal and NO_COLOR is not set.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "paceline/core/json.h"
#include "paceline/core/log.h"

namespace paceline::track {

class Terminal {
 public:
  virtual ~Terminal() = default;
  /// A line of the controller.
  virtual void log(LogLevel level, const std::string& line) = 0;
  /// A line that a worker wrote: "(rank 0) loss 0.31".
  virtual void output(const std::string& who, const std::string& line) = 0;
  /// Rank 0's progress: "epoch 3", 12 of 391 at 5.1 steps a second.
  virtual void progress(const std::string& label, int64_t done, int64_t total, double rate) = 0;
  /// The last metrics of rank 0, as JSON.
  virtual void metrics(const Json& metrics) = 0;
  /// Removes the live line; nothing is shown after it.
  virtual void finish() = 0;
};

/// Writes controller lines and the live line to `out` (standard error in drivers).
std::unique_ptr<Terminal> make_terminal(std::FILE* out);
/// Shows nothing: for tests.
std::unique_ptr<Terminal> make_silent_terminal();

}  // namespace paceline::track
