// How a run's status looks: one line, and above it the rows of a bar. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/json.h"

namespace paceline::track {

struct StepProgress {
  std::string label;
  int64_t done = 0;
  int64_t total = 0;  // 0: unknown
  double rate = 0;    // steps a second; 0: unknown
};

struct RunStatus {
  std::string state;
  int64_t ready = 0;    // workers that have joined and not ended
  int64_t workers = 0;  // of the group; 0: not known yet
  std::string stragglers;
  StepProgress progress;          // without label: none yet
  std::vector<std::string> bars;  // that a worker draws itself: shown in the place of `progress`
  Json metrics = Json::object();
  std::string checkpoint;
};

struct LineStyle {
  int columns = 80;
  int rows = 24;
  bool unicode = true;
  bool colour = true;
};

/// "0:42", "12:03", "2:03:04"; "-" for what is not a duration.
std::string duration_text(double seconds);
/// "loss 0.3125, eval/accuracy 0.98": numbers, words and truth values, four significant digits.
std::string metrics_text(const Json& metrics);
/// "epoch 3: 45 % (176/391), 5.1/s, 0:42 left".
std::string progress_text(const StepProgress& progress);
/// The live line, at most `columns` - 3 wide (at least 1) and without control characters but for colours.
std::string status_line(const RunStatus& status, const LineStyle& style);
/// The bars, each as wide as the terminal at most, and below them the status line; one row less than the terminal has,
/// so that its cursor can come back to the first, and at least the status line.
std::vector<std::string> status_rows(const RunStatus& status, const LineStyle& style);

}  // namespace paceline::track
