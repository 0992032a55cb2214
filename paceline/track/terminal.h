// Terminal: what the driver shows of a run. Plain lines when piped; in a terminal one live status line below them.
//
// The live line has state, workers, slow ranks, progress with rate and time left, the last metrics and the last
// checkpoint. Bars that rank 0 draws itself take the place of the progress, in rows of their own above the line. It is
// drawn on events, at most ten times a second, as wide as the terminal is at that moment. When piped, progress and
// metrics are lines now and then (ten for an epoch, and none within two seconds of another), so that logs stay
// readable; state and checkpoints are left to the controller's log lines. Colours only in a terminal and where NO_COLOR
// is not set; letters beyond ASCII only where the locale has UTF-8. Of what workers write a terminal gets text and
// colours, but nothing that moves the cursor; a pipe gets every byte. Thread-safe.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "paceline/core/clock.h"
#include "paceline/core/json.h"
#include "paceline/core/log.h"

namespace paceline::track {

class Terminal {
 public:
  virtual ~Terminal() = default;
  /// A line of the controller.
  virtual void log(LogLevel level, const std::string& line) = 0;
  /// A line that a worker wrote: ("rank 0", "loss 0.31") shows "(rank 0) loss 0.31".
  virtual void output(const std::string& who, const std::string& line) = 0;
  /// What a worker's unfinished lines show that draw over themselves, progress bars, with "\n" between them; "" when
  /// there are none any more. What they show in the end comes as output(). On a terminal they are live, elsewhere lines
  /// now and then.
  virtual void bar(const std::string& who, const std::string& text) = 0;
  /// The run's state: "running", "restarting", …
  virtual void state(const std::string& state) = 0;
  /// How many of the group's workers have joined and not ended.
  virtual void workers(int64_t ready, int64_t workers) = 0;
  /// Which ranks are slower than the others, in words; "" for none.
  virtual void stragglers(const std::string& text) = 0;
  /// Rank 0's progress: "epoch 3", 12 of 391 at 5.1 steps a second. `total` 0 is unknown, `rate` 0 too.
  virtual void progress(const std::string& label, int64_t done, int64_t total, double rate) = 0;
  /// The last metrics of rank 0, as JSON.
  virtual void metrics(const Json& metrics) = 0;
  /// A checkpoint was published: "checkpoint_000042".
  virtual void checkpoint(const std::string& name) = 0;
  /// Removes the live line for good; lines that still come are written plainly.
  virtual void finish() = 0;
};

/// Writes to `out` (standard error in drivers), which must outlive the terminal. `clock` limits how often progress is
/// shown; null for the system's. `quiet`: what workers write, warnings and errors alone.
std::unique_ptr<Terminal> make_terminal(std::FILE* out, const Clock* clock = nullptr, bool quiet = false);

/// Takes text of whole lines; must not throw.
using TextSink = std::function<void(std::string_view)>;
/// As for a pipe. One call of `out` at a time, on whatever thread calls the terminal.
std::unique_ptr<Terminal> make_terminal(TextSink out, const Clock* clock = nullptr, bool quiet = false);

}  // namespace paceline::track
