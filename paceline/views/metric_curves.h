// MetricCurves: a run's metrics over its whole history, in as many points as a chart wants.
//
// The run store and `paceline metrics` keep 512 points of a metric (track/series.h); this reads the history itself, so
// that a chart can be zoomed down to single reports. Follows a history that grows: read() costs what is new, and takes
// much of that with several threads. Numbers are kept in memory, 12 bytes each and 16 bytes a report. Not thread-safe.
#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "paceline/core/json.h"
#include "paceline/storage/local/line_reader.h"
#include "paceline/track/series.h"
#include "paceline/views/shown_numbers.h"

namespace paceline::views {

/// A metric in points, each of which stands for as many neighbouring values as every other does, to within one. Lists
/// of the same length.
struct Curve {
  std::vector<int64_t> report;  // of the last value
  std::vector<double> time;     // of the last value, in seconds since the Unix epoch
  std::vector<double> min;      // NaN where all values are NaN
  std::vector<double> max;
  std::vector<double> last;

  bool operator==(const Curve&) const = default;
};

/// {"report": […], "time": […], "min": […], "max": […], "last": […]}. Numbers that are not finite are the texts "NaN",
/// "Infinity" and "-Infinity": browsers read these with Number().
Json curve_json(const Curve& curve);

/// What the run store keeps of a metric, where its history is gone. It has no times: these are NaN.
Curve stored_curve(const track::Series& series);

/// Which part of the curve, by reports, both ends included, and how many points at most.
struct CurveRange {
  int64_t from = 0;
  int64_t to = std::numeric_limits<int64_t>::max();
  size_t points = 800;
};

class MetricCurves {
 public:
  explicit MetricCurves(const std::string& run_folder);

  /// Takes what is new in the history; everything anew when another run's is there.
  arrow::Status read();

  /// Names of all metrics that have numbers; nested ones as in "eval/accuracy".
  std::vector<std::string> names() const;
  /// The curve of one; empty for a name that it does not have.
  Curve curve(const std::string& name, const CurveRange& range) const;
  /// How many numbers are held.
  size_t size() const;

 private:
  struct Values {
    std::vector<uint32_t> rows;  // of reports and times
    std::vector<double> values;
  };

  // A part of the history.
  struct Part {
    std::vector<int64_t> reports;
    std::vector<double> times;
    std::map<std::string, Values> metrics;

    void add(const ShownNumbers& numbers);
    /// Takes the part that follows.
    void append(const Part& next);
  };

  arrow::Status read_parts(size_t count);

  storage::LineReader history_;
  Part all_;
};

}  // namespace paceline::views
