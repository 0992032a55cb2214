// Axes: which values are written beside a drawing. Pure.
#pragma once

#include <string>
#include <vector>

namespace paceline::plot {

struct Tick {
  double value = 0;
  std::string label;

  bool operator==(const Tick&) const = default;
};

/// What an axis reaches from and to.
struct Range {
  double low = 0;
  double high = 1;

  /// 0 at `low`, 1 at `high`.
  double place_of(double value) const { return (value - low) / (high - low); }
  bool operator==(const Range&) const = default;
};

/// The range of `values`, never empty: a single value gets room around it. Values that are not finite do not count.
Range range_of(const std::vector<double>& values);

/// At most `most` round values within the range, with as many digits as tell them apart: multiples of 1, 2 or 5 times a
/// power of ten (P. S. Heckbert, "Nice numbers for graph labels", Graphics Gems, 1990).
std::vector<Tick> ticks(const Range& range, int most);

}  // namespace paceline::plot
