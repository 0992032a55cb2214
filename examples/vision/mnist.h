// The MNIST handwritten digits as a dataset for torch::data and prepare_data_loader().
#pragma once

#include <torch/torch.h>

#include <optional>
#include <string>

/// 60,000 digits to train on or 10,000 to test with. Copies of the dataset share the images, which nothing changes, so
/// every loader thread can have one.
///
///     Mnist digits("./data");
///     auto [images, labels] = digits.get_batch(std::vector<size_t>{0, 1, 2});
class Mnist : public torch::data::datasets::BatchDataset<Mnist, torch::data::Example<>> {
 public:
  /// Reads the digits in folder `root`. What is missing there is fetched by tools/fetch_mnist first: of several
  /// processes one fetches, the others wait. `limit` takes only the first so many.
  /// paceline::StorageError when files cannot be fetched or are not MNIST's.
  explicit Mnist(const std::string& root, bool train = true, std::optional<size_t> limit = std::nullopt);

  /// data: [rows, 1, 28, 28] float32, normalised to mean 0 and deviation 1 over MNIST; target: [rows] int64.
  torch::data::Example<> get_batch(torch::ArrayRef<size_t> rows) override;
  std::optional<size_t> size() const override { return labels_.size(0); }

  /// The images as they are drawn: [size, 28, 28] uint8, 0 for the background.
  const torch::Tensor& pixels() const { return pixels_; }
  /// [size] int64.
  const torch::Tensor& labels() const { return labels_; }

 private:
  torch::Tensor pixels_, labels_;
};
