// Tests of what the examples train on: model, dataset, picture.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>

#include "examples/vision/mnist.h"
#include "examples/vision/picture.h"
#include "examples/vision/resnet18.h"
#include "paceline/core/error.h"
#include "paceline/testing/temporary_folder.h"

namespace {

namespace F = torch::nn::functional;

TEST(ResNet18, HasTorchvisionsParametersInItsOrder) {
  ResNet18 model(/*num_classes=*/10);
  std::vector<std::string> names;
  int64_t count = 0;
  for (const auto& parameter : model->named_parameters()) {
    names.push_back(parameter.key());
    count += parameter->numel();
  }
  EXPECT_EQ(count, 11'175'370);  // torchvision's 11,689,512 with 1 input channel instead of 3 and 10 classes for 1000
  ASSERT_EQ(names.size(), 62U);
  EXPECT_EQ(names[0], "conv1.weight");
  EXPECT_EQ(names[3], "layer1.0.conv1.weight");
  EXPECT_EQ(names[21], "layer2.0.downsample.0.weight");
  EXPECT_EQ(names[61], "fc.bias");
}

TEST(ResNet18, LearnsABatchByHeart) {
  torch::manual_seed(1);
  ResNet18 model(/*num_classes=*/10);
  torch::optim::Adam optimizer(model->parameters(), 1e-3);
  const torch::Tensor images = torch::randn({8, 1, 28, 28});
  const torch::Tensor labels = torch::randint(0, 10, {8});
  double loss = 0;
  for (int step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    const torch::Tensor output = F::cross_entropy(model->forward(images), labels);
    output.backward();
    optimizer.step();
    loss = output.item<double>();
  }
  EXPECT_LT(loss, 0.1);
}

// The last stages see two pixels by two and single ones: they compute what convolutions would, in both directions.
TEST(BasicBlock, GivesTheConvolutionsNumbersOnSmallImages) {
  torch::manual_seed(1);
  struct Case {
    int64_t stride, height, width;
  };
  for (const auto [stride, height, width] :
       {Case{1, 1, 1}, Case{2, 1, 1}, Case{1, 2, 2}, Case{2, 2, 2}, Case{2, 4, 4}, Case{1, 1, 2}, Case{1, 2, 3}}) {
    SCOPED_TRACE("stride " + std::to_string(stride) + ", " + std::to_string(height) + "×" + std::to_string(width));
    BasicBlock block(/*in_channels=*/4, /*out_channels=*/6, stride);
    const torch::Tensor image = torch::randn({3, 4, height, width});
    const auto named = block->named_parameters();
    const torch::Tensor got = block->forward(image);
    got.sum().backward();
    const torch::Tensor got_gradient = named["conv1.weight"].grad().clone();
    block->zero_grad();

    const auto norm = [](const torch::Tensor& values) {
      return torch::batch_norm(values, {}, {}, {}, {}, /*training=*/true, 0.1, 1e-5, false);
    };
    const torch::Tensor inner = norm(torch::conv2d(image, named["conv1.weight"], {}, stride, 1)).relu();
    const torch::Tensor outer = norm(torch::conv2d(inner, named["conv2.weight"], {}, 1, 1));
    const torch::Tensor wanted = (outer + norm(torch::conv2d(image, named["downsample.0.weight"], {}, stride))).relu();
    wanted.sum().backward();
    EXPECT_TRUE(torch::allclose(got, wanted, 1e-4, 1e-5));
    EXPECT_TRUE(torch::allclose(got_gradient, named["conv1.weight"].grad(), 1e-3, 1e-4));
  }
}

/// Writes an IDX file of bytes; big-endian lengths.
void write_idx(const std::filesystem::path& path, const std::vector<int>& shape, const std::vector<char>& bytes) {
  std::ofstream file(path, std::ios::binary);
  const auto number = [&file](unsigned value) {
    for (int shift = 24; shift >= 0; shift -= 8) file.put(static_cast<char>(value >> shift));
  };
  number(0x0800U | static_cast<unsigned>(shape.size()));
  for (const int length : shape) number(static_cast<unsigned>(length));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

class MnistFiles : public testing::Test {
 protected:
  // Files that are there are not fetched, whatever they hold.
  MnistFiles() {
    for (const std::string prefix : {"train", "t10k"}) {
      std::vector<char> pixels(3 * 28 * 28, 0);
      pixels[28 * 28] = static_cast<char>(255);  // first pixel of the second image
      write_idx(folder_ / (prefix + "-images-idx3-ubyte"), {3, 28, 28}, pixels);
      write_idx(folder_ / (prefix + "-labels-idx1-ubyte"), {3}, {5, 0, 4});
    }
  }
  paceline::testing::TemporaryFolder holder_;
  std::filesystem::path folder_ = holder_.path();
};

TEST_F(MnistFiles, GivesNormalisedImagesAndLabelsByRow) {
  Mnist digits(folder_);
  EXPECT_EQ(digits.size(), 3U);
  const auto batch = digits.get_batch(std::vector<size_t>{1, 2});
  EXPECT_EQ(batch.data.sizes(), (std::vector<int64_t>{2, 1, 28, 28}));
  EXPECT_TRUE(batch.target.equal(torch::tensor({0, 4}, torch::kInt64)));
  EXPECT_NEAR(batch.data[0][0][0][0].item<double>(), (1 - 0.1307) / 0.3081, 1e-4);
  EXPECT_NEAR(batch.data[1][0][0][0].item<double>(), -0.1307 / 0.3081, 1e-4);
  EXPECT_EQ(Mnist(folder_, /*train=*/true, /*limit=*/2).size(), 2U);
}

TEST_F(MnistFiles, RefusesWhatIsNoIdxFile) {
  std::ofstream(folder_ / "train-labels-idx1-ubyte") << "<html>";
  EXPECT_THROW(Mnist{folder_}, paceline::StorageError);
  write_idx(folder_ / "train-labels-idx1-ubyte", {3}, {5});
  EXPECT_THROW(Mnist{folder_}, paceline::StorageError);
}

TEST_F(MnistFiles, PictureIsAPngOfTheRightSize) {
  const std::filesystem::path path = folder_ / "digits.png";
  const torch::Tensor labels = torch::arange(9);
  draw_predictions(torch::zeros({9, 28, 28}, torch::kUInt8), labels, labels, path);
  std::ifstream file(path, std::ios::binary);
  std::string head(24, '\0');
  file.read(head.data(), 24);
  EXPECT_EQ(head.substr(1, 3), "PNG");
  const auto number = [&head](size_t at) {
    return static_cast<unsigned char>(head[at + 2]) * 256 + static_cast<unsigned char>(head[at + 3]);
  };
  EXPECT_EQ(number(16), 784);  // width
  EXPECT_EQ(number(20), 886);  // height
  EXPECT_THROW(draw_predictions(torch::zeros({9, 28, 28}, torch::kUInt8), labels, labels, folder_ / "no/file.png"),
               paceline::StorageError);
}

}  // namespace
