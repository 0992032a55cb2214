#include <algorithm>
#include <cmath>
#include <cstdint>

#include "paceline/plot/axis.h"
#include "paceline/plot/chart.h"

namespace paceline::plot {
namespace {

// Dots of a drawing, several to a letter.
class Dots {
 public:
  Dots(int columns, int rows, bool unicode)
      : columns_(columns),
        rows_(rows),
        unicode_(unicode),
        width_(unicode ? 2 * columns : columns),
        height_(unicode ? 4 * rows : rows),
        set_(static_cast<size_t>(width_ * height_)) {}

  int width() const { return width_; }
  int height() const { return height_; }

  // From one dot to another, y upwards from 0.
  void line(int x0, int y0, int x1, int y1) {
    const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= steps; ++i) {
      const double part = static_cast<double>(i) / steps;
      set(x0 + static_cast<int>(std::lround(part * (x1 - x0))), y0 + static_cast<int>(std::lround(part * (y1 - y0))));
    }
  }

  // A row of letters, the top one first.
  std::string row(int row) const {
    std::string text;
    for (int column = 0; column < columns_; ++column) text += unicode_ ? braille(column, row) : ascii(column, row);
    return text;
  }

 private:
  size_t index(int x, int from_top) const {
    return static_cast<size_t>(from_top) * static_cast<size_t>(width_) + static_cast<size_t>(x);
  }
  void set(int x, int y) { set_[index(x, height_ - 1 - y)] = true; }
  bool is_set(int x, int from_top) const { return set_[index(x, from_top)]; }

  std::string ascii(int column, int row) const { return is_set(column, row) ? "*" : " "; }

  // U+2800 and a bit for each dot, in the order in which Unicode numbers them.
  std::string braille(int column, int row) const {
    constexpr uint8_t kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    int dots = 0;
    for (int y = 0; y < 4; ++y) {
      for (int x = 0; x < 2; ++x) dots |= is_set(2 * column + x, 4 * row + y) ? kBits[y][x] : 0;
    }
    return {static_cast<char>(0xe2), static_cast<char>(0xa0 + (dots >> 6)), static_cast<char>(0x80 + (dots & 0x3f))};
  }

  int columns_;
  int rows_;
  bool unicode_;
  int width_;
  int height_;
  std::vector<bool> set_;
};

int dot_of(double place, int dots) {
  return std::clamp(static_cast<int>(std::lround(place * (dots - 1))), 0, dots - 1);
}

void draw_curve(const Chart& chart, const Range& x_range, const Range& y_range, Dots& dots) {
  int last_x = -1, last_y = 0;
  for (const Point& point : chart.points) {
    if (!std::isfinite(point.y)) continue;
    const int x = dot_of(x_range.place_of(point.x), dots.width());
    const int y = dot_of(y_range.place_of(point.y), dots.height());
    if (std::isfinite(point.low) && std::isfinite(point.high)) {
      dots.line(x, dot_of(y_range.place_of(point.low), dots.height()), x,
                dot_of(y_range.place_of(point.high), dots.height()));
    }
    dots.line(last_x < 0 ? x : last_x, last_x < 0 ? y : last_y, x, y);
    last_x = x;
    last_y = y;
  }
}

}  // namespace

std::string draw_in_terminal(const Chart& chart, const TerminalStyle& style) {
  std::vector<double> xs, ys;
  for (const Point& point : chart.points) {
    xs.push_back(point.x);
    ys.insert(ys.end(), {point.y, point.low, point.high});
  }
  const Range x_range = range_of(xs), y_range = range_of(ys);
  const int rows = std::max(3, style.rows - 3);  // beside title and the two lines of the x axis
  const std::vector<Tick> y_ticks = ticks(y_range, std::max(2, rows / 2));
  size_t margin = 0;
  for (const Tick& tick : y_ticks) margin = std::max(margin, tick.label.size());
  const int columns = std::max(10, style.columns - static_cast<int>(margin) - 2);
  Dots dots(columns, rows, style.unicode);
  draw_curve(chart, x_range, y_range, dots);

  std::vector<std::string> labels(static_cast<size_t>(rows));
  for (const Tick& tick : y_ticks) {
    labels[static_cast<size_t>(rows - 1 - dot_of(y_range.place_of(tick.value), rows))] = tick.label;
  }
  std::string text = chart.title + "\n";
  for (int row = 0; row < rows; ++row) {
    const std::string& label = labels[static_cast<size_t>(row)];
    const char* tick = style.unicode ? (label.empty() ? "│" : "┤") : (label.empty() ? "|" : "+");
    text += std::string(margin - label.size(), ' ') + label + " " + tick + dots.row(row) + "\n";
  }
  std::string axis(margin + 2 + static_cast<size_t>(columns), ' ');
  size_t free_from = 0;
  for (const Tick& tick : ticks(x_range, std::max(2, columns / 12))) {
    const size_t at = margin + 2 + static_cast<size_t>(dot_of(x_range.place_of(tick.value), columns));
    const size_t start = std::min(at - std::min(at, tick.label.size() / 2), axis.size() - tick.label.size());
    if (start < free_from || tick.label.size() > axis.size()) continue;
    axis.replace(start, tick.label.size(), tick.label);
    free_from = start + tick.label.size() + 1;
  }
  axis.erase(axis.find_last_not_of(' ') + 1);
  const size_t centre = margin + 2 + static_cast<size_t>(columns) / 2;
  const size_t indent = centre - std::min(centre, chart.x_title.size() / 2);
  return text + axis + "\n" + std::string(indent, ' ') + chart.x_title + "\n";
}

}  // namespace paceline::plot
