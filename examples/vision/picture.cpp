#include "examples/vision/picture.h"

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#include <stb/stb_easy_font.h>
#include <stb/stb_image_write.h>

#include <array>
#include <cmath>
#include <vector>

#include "paceline/core/error.h"

namespace {

using torch::indexing::Slice;
using Colour = std::array<int64_t, 3>;

constexpr Colour kPage = {246, 247, 249};
constexpr Colour kInk = {24, 28, 38};
constexpr Colour kRight = {22, 128, 74};
constexpr Colour kWrong = {198, 40, 40};
constexpr int64_t kDigitsInRow = 3;  // and rows
constexpr int64_t kDigit = 28 * 8;   // pixels of a digit's side
constexpr int64_t kMargin = 28;
constexpr int64_t kCaption = 34;  // height of the line beneath a digit
constexpr int64_t kFontScale = 2;

torch::Tensor tensor_of(const Colour& colour) {
  return torch::tensor({colour[0], colour[1], colour[2]}, torch::kUInt8);
}

/// Fills a rectangle of `image` [height, width, 3].
void fill(torch::Tensor& image, int64_t top, int64_t left, int64_t height, int64_t width, const Colour& colour) {
  image.index_put_({Slice(top, top + height), Slice(left, left + width)}, tensor_of(colour));
}

/// Writes `text` centred in the columns from `left`; stb_easy_font gives the strokes of its letters as rectangles.
void write(torch::Tensor& image, std::string text, int64_t top, int64_t left, int64_t width, const Colour& colour) {
  struct Vertex {
    float x, y, z;
    std::array<unsigned char, 4> colour;
  };
  std::array<Vertex, 4096> vertices;
  const auto quads =
      static_cast<size_t>(stb_easy_font_print(0, 0, text.data(), nullptr, vertices.data(), sizeof(vertices)));
  const int64_t start = left + (width - stb_easy_font_width(text.data()) * kFontScale) / 2;
  for (size_t quad = 0; quad < quads; ++quad) {
    const Vertex& first = vertices[4 * quad];
    const Vertex& opposite = vertices[4 * quad + 2];
    const auto at = [](float value) { return static_cast<int64_t>(std::lround(value)) * kFontScale; };
    fill(image, top + at(first.y), start + at(first.x), at(opposite.y) - at(first.y), at(opposite.x) - at(first.x),
         colour);
  }
}

/// A digit [28, 28] uint8, enlarged smoothly and in ink on white: [kDigit, kDigit, 3].
torch::Tensor enlarge(const torch::Tensor& pixels) {
  namespace F = torch::nn::functional;
  auto options = F::InterpolateFuncOptions().size(std::vector<int64_t>{kDigit, kDigit}).mode(torch::kBicubic);
  options.align_corners(false);
  torch::Tensor ink = pixels.to(torch::kFloat32).div_(255).view({1, 1, 28, 28});
  ink = F::interpolate(ink, options).clamp_(0, 1).view({kDigit, kDigit, 1});
  return (255 * (1 - ink) + tensor_of(kInk) * ink).to(torch::kUInt8);
}

}  // namespace

void draw_predictions(const torch::Tensor& pixels, const torch::Tensor& labels, const torch::Tensor& predictions,
                      const std::string& path) {
  constexpr int64_t kStepX = kDigit + kMargin;
  constexpr int64_t kStepY = kDigit + kCaption + kMargin;
  torch::Tensor image = tensor_of(kPage).repeat({kMargin + kDigitsInRow * kStepY, kMargin + kDigitsInRow * kStepX, 1});
  for (int64_t i = 0; i < kDigitsInRow * kDigitsInRow; ++i) {
    const int64_t top = kMargin + i / kDigitsInRow * kStepY;
    const int64_t left = kMargin + i % kDigitsInRow * kStepX;
    const auto label = labels[i].item<int64_t>();
    const auto prediction = predictions[i].item<int64_t>();
    image.index_put_({Slice(top, top + kDigit), Slice(left, left + kDigit)}, enlarge(pixels[i]));
    write(image, "label " + std::to_string(label) + ", predicted " + std::to_string(prediction), top + kDigit + 12,
          left, kDigit, label == prediction ? kRight : kWrong);
  }
  const int width = static_cast<int>(image.size(1));
  if (stbi_write_png(path.c_str(), width, static_cast<int>(image.size(0)), 3, image.data_ptr(), 3 * width) == 0) {
    throw paceline::StorageError("the picture could not be written to " + path);
  }
}
