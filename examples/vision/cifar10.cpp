#include "examples/vision/cifar10.h"

#include <filesystem>
#include <fstream>
#include <vector>

#include "examples/vision/run_script.h"
#include "paceline/core/error.h"

namespace {

namespace fs = std::filesystem;

constexpr int64_t kSide = 32;
constexpr int64_t kPixels = 3 * kSide * kSide;
constexpr int64_t kRecord = 1 + kPixels;  // the label, then red, green and blue

std::vector<fs::path> files_of(const fs::path& folder, bool train) {
  if (!train) return {folder / "test_batch.bin"};
  std::vector<fs::path> files;
  for (int number = 1; number <= 5; ++number)
    files.push_back(folder / ("data_batch_" + std::to_string(number) + ".bin"));
  return files;
}

/// The records of one file: [records, kRecord] uint8.
torch::Tensor read_records(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const auto size = static_cast<int64_t>(fs::file_size(path));
  torch::Tensor records = torch::empty({size / kRecord, kRecord}, torch::kUInt8);
  if (size == 0 || size % kRecord != 0 || !file.read(static_cast<char*>(records.data_ptr()), size) ||
      records.select(1, 0).max().item<int64_t>() > 9) {
    throw paceline::StorageError(path.string() + " is not a file of CIFAR-10: it should hold records of " +
                                 std::to_string(kRecord) + " bytes that begin with a label from 0 to 9, and has " +
                                 std::to_string(size) + " bytes. Remove it, and it will be fetched again");
  }
  return records;
}

}  // namespace

Cifar10::Cifar10(const std::string& root, bool train, std::optional<size_t> limit) {
  const fs::path folder = fs::path(root) / "cifar-10-batches-bin";
  std::vector<torch::Tensor> parts;
  for (const fs::path& file : files_of(folder, train)) {
    if (!fs::exists(file)) run_script("tools/fetch_cifar10", {root});
    parts.push_back(read_records(file));
  }
  torch::Tensor records = torch::cat(parts);
  if (limit) records = records.slice(0, 0, static_cast<int64_t>(*limit));
  labels_ = records.select(1, 0).to(torch::kInt64);
  pixels_ = records.narrow(1, 1, kPixels).reshape({-1, 3, kSide, kSide});
}

torch::data::Example<> Cifar10::get_batch(torch::ArrayRef<size_t> rows) {
  const std::vector<int64_t> indices(rows.begin(), rows.end());
  const torch::Tensor index = torch::tensor(indices);
  torch::Tensor images = pixels_.index_select(0, index).to(torch::kFloat32).mul_(2.0F / 255.0F).sub_(1.0F);
  return {images, labels_.index_select(0, index)};
}
