// Where the parts of a chart go on a page, whatever draws them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "paceline/plot/chart.h"

namespace paceline::plot {

/// Size of the page.
inline constexpr double kWidth = 800, kHeight = 400;

/// A place on the page, from its upper left corner.
struct Spot {
  double x = 0;
  double y = 0;
};

enum class Ink { curve, band, axis, grid };
enum class Align { left, centre, right };

/// Red, green, blue.
std::array<int, 3> colour_of(Ink ink);

class Canvas {
 public:
  virtual ~Canvas() = default;
  virtual void line(const std::vector<Spot>& spots, Ink ink) = 0;
  /// Letters of about 12 units, their middle at `at`.y.
  virtual void text(Spot at, const std::string& words, Align align) = 0;
};

void lay_out(const Chart& chart, Canvas& canvas);

}  // namespace paceline::plot
