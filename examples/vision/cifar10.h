// The CIFAR-10 photographs as a dataset for torch::data and prepare_data_loader().
#pragma once

#include <torch/torch.h>

#include <optional>
#include <string>

/// 50,000 photographs of ten kinds of things to train on, or 10,000 to test with. Copies of the dataset share the
/// images, which nothing changes, so every loader thread can have one.
///
///     Cifar10 photographs("./data");
///     auto [images, labels] = photographs.get_batch(std::vector<size_t>{0, 1, 2});
class Cifar10 : public torch::data::datasets::BatchDataset<Cifar10, torch::data::Example<>> {
 public:
  /// Reads the folder `root`/cifar-10-batches-bin, whose files are those of the dataset's binary version. What is
  /// missing there is fetched by tools/fetch_cifar10 first: of several processes one fetches, the others wait. `limit`
  /// takes only the first so many photographs.
  /// paceline::StorageError when files cannot be fetched or are not CIFAR-10's.
  explicit Cifar10(const std::string& root, bool train = true, std::optional<size_t> limit = std::nullopt);

  /// data: [rows, 3, 32, 32] float32 in [-1, 1], red, green and blue; target: [rows] int64.
  torch::data::Example<> get_batch(torch::ArrayRef<size_t> rows) override;
  std::optional<size_t> size() const override { return labels_.size(0); }
  /// [size, 3, 32, 32] uint8: red, green and blue.
  const torch::Tensor& pixels() const { return pixels_; }
  /// [size] int64.
  const torch::Tensor& labels() const { return labels_; }

 private:
  torch::Tensor pixels_, labels_;
};
