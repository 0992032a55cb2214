// Chart: one curve, drawn in a terminal, as SVG or as PNG. Pure.
#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

namespace paceline::plot {

/// A point may stand for several values: the curve goes through `y`, and reaches from `low` to `high` there. Values
/// that are not finite are left out of the drawing.
struct Point {
  double x = 0;
  double y = 0;
  double low = 0;
  double high = 0;
};

struct Chart {
  std::string title;
  std::string x_title;
  std::vector<Point> points;  // by ascending x
};

struct TerminalStyle {
  int columns = 80;
  int rows = 20;
  bool unicode = true;  // braille dots (2 × 4 in a letter); else '*'
};

/// Lines with their newlines, none longer than `columns`.
std::string draw_in_terminal(const Chart& chart, const TerminalStyle& style);

/// A whole SVG document, 800 × 400.
std::string draw_svg(const Chart& chart);

/// The bytes of a PNG, 1600 × 800. Letters beyond ASCII are drawn as '?'.
arrow::Result<std::string> draw_png(const Chart& chart);

}  // namespace paceline::plot
