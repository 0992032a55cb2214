#include <algorithm>
#include <cmath>
#include <cstdint>

#include "paceline/plot/layout_internal.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#include <stb/stb_easy_font.h>
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace paceline::plot {
namespace {

constexpr int kScale = 2;  // pixels for a unit of the page

// Draws into memory; lines are as soft at their edges as the pixels that they cover in part.
class Image final : public Canvas {
 public:
  Image() : pixels_(static_cast<size_t>(kImageWidth * kImageHeight * 3), 255) {}

  void line(const std::vector<Spot>& spots, Ink ink) override {
    const double reach = (ink == Ink::curve ? 1.5 : 1.0) * kScale / 2;
    for (size_t i = 0; i + 1 < spots.size(); ++i) {
      segment({spots[i].x * kScale, spots[i].y * kScale}, {spots[i + 1].x * kScale, spots[i + 1].y * kScale}, reach,
              colour_of(ink));
    }
  }

  void text(Spot at, const std::string& words, Align align) override {
    std::string ascii;
    for (const char letter : words) {
      if ((letter & 0xc0) != 0x80) ascii += letter < ' ' || letter > '~' ? '?' : letter;
    }
    const double zoom = kLetter * kScale;
    const double width = zoom * ::stb_easy_font_width(ascii.data());
    const double left = at.x * kScale - (align == Align::left ? 0 : align == Align::centre ? width / 2 : width);
    const double top = at.y * kScale - zoom * 4;
    struct Vertex {
      float x, y, z;
      uint32_t colour;
    };
    std::vector<Vertex> vertices(ascii.size() * 70 + 4);  // stb's advice: about 270 bytes for a letter, at most
    const int quads = ::stb_easy_font_print(0, 0, ascii.data(), nullptr, vertices.data(),
                                            static_cast<int>(vertices.size() * sizeof(Vertex)));
    for (int quad = 0; quad < quads; ++quad) {
      const Vertex& first = vertices[size_t{4} * static_cast<size_t>(quad)];
      const Vertex& third = vertices[size_t{4} * static_cast<size_t>(quad) + 2];
      fill(left + zoom * first.x, top + zoom * first.y, left + zoom * third.x, top + zoom * third.y);
    }
  }

  arrow::Result<std::string> finish() const {
    std::string png;
    const auto append = [](void* target, void* bytes, int count) {
      static_cast<std::string*>(target)->append(static_cast<const char*>(bytes), static_cast<size_t>(count));
    };
    const int written =
        ::stbi_write_png_to_func(append, &png, kImageWidth, kImageHeight, 3, pixels_.data(), kImageWidth * 3);
    if (written == 0) return arrow::Status::OutOfMemory("no memory to draw the PNG");
    return png;
  }

 private:
  static constexpr int kImageWidth = static_cast<int>(kWidth) * kScale;
  static constexpr int kImageHeight = static_cast<int>(kHeight) * kScale;
  static constexpr double kLetter = 1.2;  // of the font's own size

  void blend(int x, int y, const std::array<int, 3>& colour, double cover) {
    if (x < 0 || y < 0 || x >= kImageWidth || y >= kImageHeight) return;
    for (size_t channel = 0; channel < 3; ++channel) {
      uint8_t& value = pixels_[static_cast<size_t>(3 * (y * kImageWidth + x)) + channel];
      value = static_cast<uint8_t>(std::lround(value + cover * (colour[channel] - value)));
    }
  }

  // Every pixel by its distance from the segment.
  void segment(Spot from, Spot to, double reach, const std::array<int, 3>& colour) {
    const double dx = to.x - from.x, dy = to.y - from.y, length2 = dx * dx + dy * dy;
    const auto bound = [&](double a, double b, bool low) {
      return static_cast<int>(low ? std::floor(std::min(a, b) - reach - 1) : std::ceil(std::max(a, b) + reach + 1));
    };
    for (int y = bound(from.y, to.y, true); y <= bound(from.y, to.y, false); ++y) {
      for (int x = bound(from.x, to.x, true); x <= bound(from.x, to.x, false); ++x) {
        const double px = x + 0.5 - from.x, py = y + 0.5 - from.y;
        const double along = length2 == 0 ? 0 : std::clamp((px * dx + py * dy) / length2, 0.0, 1.0);
        const double distance = std::hypot(px - along * dx, py - along * dy);
        const double cover = std::clamp(reach + 0.5 - distance, 0.0, 1.0);
        if (cover > 0) blend(x, y, colour, cover);
      }
    }
  }

  void fill(double left, double top, double right, double bottom) {
    for (int y = static_cast<int>(std::floor(top)); y < std::ceil(bottom); ++y) {
      for (int x = static_cast<int>(std::floor(left)); x < std::ceil(right); ++x) {
        const double wide = std::min<double>(right, x + 1) - std::max<double>(left, x);
        const double high = std::min<double>(bottom, y + 1) - std::max<double>(top, y);
        blend(x, y, colour_of(Ink::axis), std::clamp(wide, 0.0, 1.0) * std::clamp(high, 0.0, 1.0));
      }
    }
  }

  std::vector<uint8_t> pixels_;
};

}  // namespace

arrow::Result<std::string> draw_png(const Chart& chart) {
  Image image;
  lay_out(chart, image);
  return image.finish();
}

}  // namespace paceline::plot
