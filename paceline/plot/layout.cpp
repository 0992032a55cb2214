#include <cmath>

#include "paceline/plot/axis.h"
#include "paceline/plot/layout_internal.h"

namespace paceline::plot {
namespace {

constexpr double kLeft = 80, kRight = kWidth - 20, kTop = 36, kBottom = kHeight - 52;

}  // namespace

std::array<int, 3> colour_of(Ink ink) {
  switch (ink) {
    case Ink::curve:
      return {31, 119, 180};
    case Ink::band:
      return {174, 199, 232};
    case Ink::axis:
      return {60, 60, 60};
    case Ink::grid:
      return {225, 225, 225};
  }
  return {0, 0, 0};
}

void lay_out(const Chart& chart, Canvas& canvas) {
  std::vector<double> xs, ys;
  for (const Point& point : chart.points) {
    xs.push_back(point.x);
    ys.insert(ys.end(), {point.y, point.low, point.high});
  }
  const Range x_range = range_of(xs), y_range = range_of(ys);
  const auto x_of = [&](double x) { return kLeft + x_range.place_of(x) * (kRight - kLeft); };
  const auto y_of = [&](double y) { return kBottom - y_range.place_of(y) * (kBottom - kTop); };

  for (const Tick& tick : ticks(y_range, 8)) {
    const double y = y_of(tick.value);
    canvas.line({{kLeft, y}, {kRight, y}}, Ink::grid);
    canvas.text({kLeft - 8, y}, tick.label, Align::right);
  }
  for (const Tick& tick : ticks(x_range, 10)) {
    const double x = x_of(tick.value);
    canvas.line({{x, kTop}, {x, kBottom}}, Ink::grid);
    canvas.text({x, kBottom + 14}, tick.label, Align::centre);
  }
  std::vector<Spot> curve;
  for (const Point& point : chart.points) {
    if (std::isfinite(point.low) && std::isfinite(point.high) && point.low < point.high) {
      canvas.line({{x_of(point.x), y_of(point.low)}, {x_of(point.x), y_of(point.high)}}, Ink::band);
    }
    if (std::isfinite(point.y)) curve.push_back({x_of(point.x), y_of(point.y)});
  }
  if (curve.size() == 1) curve = {{curve[0].x - 3, curve[0].y}, {curve[0].x + 3, curve[0].y}};
  if (!curve.empty()) canvas.line(curve, Ink::curve);
  canvas.line({{kLeft, kTop}, {kLeft, kBottom}, {kRight, kBottom}}, Ink::axis);
  canvas.text({(kLeft + kRight) / 2, 16}, chart.title, Align::centre);
  canvas.text({(kLeft + kRight) / 2, kHeight - 14}, chart.x_title, Align::centre);
}

}  // namespace paceline::plot
