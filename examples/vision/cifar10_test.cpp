#include "examples/vision/cifar10.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "paceline/core/error.h"
#include "paceline/testing/temporary_folder.h"

namespace {

namespace fs = std::filesystem;

/// Files of three photographs each. Those that are there are not fetched, whatever they hold.
class Cifar10Files : public testing::Test {
 protected:
  Cifar10Files() {
    fs::create_directories(folder_);
    for (int number = 1; number <= 5; ++number) write("data_batch_" + std::to_string(number) + ".bin", number);
    write("test_batch.bin", 9);
  }
  /// Labels are `label`, 0 and 1; the first photograph's red is full, the second's last pixel of blue.
  void write(const std::string& name, int label) {
    std::string bytes(3 * 3073, '\0');
    bytes[0] = static_cast<char>(label);
    std::fill_n(bytes.begin() + 1, 1024, '\xff');
    bytes[2 * 3073 - 1] = '\xff';
    bytes[2 * 3073] = 1;
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  paceline::testing::TemporaryFolder holder_;
  std::string root_ = holder_.path();
  fs::path folder_ = fs::path(root_) / "cifar-10-batches-bin";
};

TEST_F(Cifar10Files, GivesPhotographsAndLabelsByRow) {
  Cifar10 photographs(root_);
  EXPECT_EQ(photographs.size(), 15U);
  const auto batch = photographs.get_batch(std::vector<size_t>{12, 4});
  EXPECT_TRUE(batch.target.equal(torch::tensor({5, 0}, torch::kInt64)));
  ASSERT_EQ(batch.data.sizes(), (std::vector<int64_t>{2, 3, 32, 32}));
  EXPECT_TRUE(batch.data[0][0].eq(1).all().item<bool>());
  EXPECT_TRUE(batch.data[0].slice(0, 1).eq(-1).all().item<bool>());
  EXPECT_EQ(batch.data[1][2][31][31].item<float>(), 1);
  EXPECT_EQ(batch.data[1].eq(1).sum().item<int64_t>(), 1);
}

TEST_F(Cifar10Files, TestsWithOtherPhotographsAndTakesTheFirstFew) {
  EXPECT_EQ(Cifar10(root_, /*train=*/false).get_batch(std::vector<size_t>{0}).target.item<int64_t>(), 9);
  EXPECT_EQ(Cifar10(root_, /*train=*/true, /*limit=*/4).size(), 4U);
  EXPECT_EQ(Cifar10(root_, /*train=*/false, /*limit=*/4).size(), 3U);
}

TEST_F(Cifar10Files, RefusesWhatIsNoFileOfCifar10) {
  for (const std::string& bytes : {std::string("<html>"), std::string(), std::string(3073, '\x0a')}) {
    std::ofstream(folder_ / "test_batch.bin", std::ios::binary) << bytes;
    EXPECT_THROW(Cifar10(root_, /*train=*/false), paceline::StorageError) << bytes.size() << " bytes";
  }
}

}  // namespace
