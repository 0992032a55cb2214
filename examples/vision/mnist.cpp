#include "examples/vision/mnist.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <vector>

#include "examples/vision/run_script.h"
#include "paceline/core/error.h"
#include "paceline/loader/fetch.h"

namespace {

namespace fs = std::filesystem;

constexpr float kMean = 0.1307F;
constexpr float kDeviation = 0.3081F;

/// The files of the dataset, with their checksums.
std::vector<paceline::FetchedFile> mnist_files() {
  std::ifstream list(fs::path(PACELINE_SOURCE_FOLDER) / "examples/vision/mnist.sha256");
  std::vector<paceline::FetchedFile> files;
  for (paceline::FetchedFile file; list >> file.sha256 >> file.name;) files.push_back(file);
  return files;
}

void fetch_with_script(const std::string& name, const fs::path& target) {
  run_script("tools/fetch_mnist", {"--one", name, target.string()});
}

/// Reads an IDX file of bytes with `dimensions` dimensions (big-endian lengths after the magic number 0x08 and rank).
torch::Tensor read_idx(const fs::path& path, int64_t dimensions) {
  std::ifstream file(path, std::ios::binary);
  const auto read_number = [&file] {
    std::array<unsigned char, 4> bytes{};
    file.read(reinterpret_cast<char*>(bytes.data()), bytes.size());
    return static_cast<int64_t>(bytes[0]) << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
  };
  if (read_number() != (0x0800 | dimensions) || !file) {
    throw paceline::StorageError(path.string() + " is not an IDX file of bytes in " + std::to_string(dimensions) +
                                 " dimensions. Remove it, and it will be fetched again");
  }
  std::vector<int64_t> shape;
  for (int64_t i = 0; i < dimensions; ++i) shape.push_back(read_number());
  torch::Tensor values = torch::empty(shape, torch::kUInt8);
  if (!file.read(static_cast<char*>(values.data_ptr()), values.numel())) {
    throw paceline::StorageError(path.string() + " is cut short: it should hold " + std::to_string(values.numel()) +
                                 " bytes of data. Remove it, and it will be fetched again");
  }
  return values;
}

}  // namespace

Mnist::Mnist(const std::string& root, bool train, std::optional<size_t> limit) {
  paceline::fetch_once(root, mnist_files(), fetch_with_script);
  const std::string prefix = train ? "train" : "t10k";
  pixels_ = read_idx(fs::path(root) / (prefix + "-images-idx3-ubyte"), 3);
  labels_ = read_idx(fs::path(root) / (prefix + "-labels-idx1-ubyte"), 1).to(torch::kInt64);
  if (limit && *limit < static_cast<size_t>(labels_.size(0))) {
    pixels_ = pixels_.narrow(0, 0, static_cast<int64_t>(*limit));
    labels_ = labels_.narrow(0, 0, static_cast<int64_t>(*limit));
  }
}

torch::data::Example<> Mnist::get_batch(torch::ArrayRef<size_t> rows) {
  const std::vector<int64_t> indices(rows.begin(), rows.end());
  const torch::Tensor index = torch::tensor(indices);
  torch::Tensor images = pixels_.index_select(0, index).to(torch::kFloat32).unsqueeze_(1);
  images.mul_(1.0F / (255.0F * kDeviation)).sub_(kMean / kDeviation);
  return {images, labels_.index_select(0, index)};
}
