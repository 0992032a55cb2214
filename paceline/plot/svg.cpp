#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "paceline/plot/axis.h"
#include "paceline/plot/layout_internal.h"

namespace paceline::plot {
namespace {

// "&", "<" and quotes have a meaning of their own; control characters may not be in XML at all.
std::string escaped(const std::string& text) {
  std::string safe;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
    }
  }
  return safe;
}

class Svg final : public Canvas {
 public:
  Svg(double width, double height) {
    text_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width) + " " + number(height) +
            "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  }

  void line(const std::vector<Spot>& spots, Ink ink) override {
    text_ += "<polyline fill=\"none\" stroke=\"" + colour(ink) + "\" stroke-width=\"" +
             (ink == Ink::curve ? "1.5" : "1") + "\" points=\"";
    for (const Spot& spot : spots) text_ += number(spot.x) + "," + number(spot.y) + " ";
    text_ += "\"/>\n";
  }

  void text(Spot at, const std::string& words, Align align) override {
    const char* anchor = align == Align::right ? "end" : align == Align::centre ? "middle" : "start";
    text_ += "<text x=\"" + number(at.x) + "\" y=\"" + number(at.y + 4) + "\" text-anchor=\"" + anchor + "\">" +
             escaped(words) + "</text>\n";
  }

  std::string finish() && { return std::move(text_) + "</svg>\n"; }

 private:
  static std::string number(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.2f", value);
    return text.data();
  }
  static std::string colour(Ink ink) {
    const std::array<int, 3> rgb = colour_of(ink);
    return "rgb(" + std::to_string(rgb[0]) + "," + std::to_string(rgb[1]) + "," + std::to_string(rgb[2]) + ")";
  }

  std::string text_;
};

}  // namespace

std::string draw_svg(const Chart& chart) {
  Svg svg(kWidth, kHeight);
  lay_out(chart, svg);
  return std::move(svg).finish();
}

}  // namespace paceline::plot
