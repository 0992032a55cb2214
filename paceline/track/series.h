// Series: a metric's course in at most 512 points, however many values it has had. Pure.
//
// A point stands for as many neighbouring values as every other does: their least, their greatest and the last of them.
// When there are too many points, neighbours become one. NaN counts as last value, not as least or greatest.
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/core/json.h"

namespace paceline::track {

struct SeriesPoint {
  int64_t report = 0;  // of the last value
  double min = 0;
  double max = 0;
  double last = 0;

  bool operator==(const SeriesPoint&) const = default;
};

class Series {
 public:
  static constexpr size_t kMostPoints = 512;

  void add(int64_t report, double value);
  const std::vector<SeriesPoint>& points() const { return points_; }
  /// How many values it has had.
  int64_t count() const { return count_; }

  /// {"count", "width": values in a point, "points": [[report, min, max, last], …]}
  friend void to_json(Json& json, const Series& series);
  friend void from_json(const Json& json, Series& series);
  bool operator==(const Series&) const = default;

 private:
  void halve();

  std::vector<SeriesPoint> points_;
  int64_t count_ = 0;
  int64_t width_ = 1;
};

}  // namespace paceline::track
