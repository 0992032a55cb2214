// A checkpoint of 100,000 files: what grows with the square of their number would not end here.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "paceline/checkpoint/stage.h"
#include "paceline/checkpoint/store.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::checkpoint {
namespace {

constexpr int kFiles = 100'000;

std::string file_name(int number) {
  return "layer_" + std::to_string(number / 1000) + "/shard_" + std::to_string(number % 1000) + ".bin";
}

TEST(ManyFiles, AreStagedPublishedListedVerifiedAndDeleted) {
  const testing::TemporaryFolder temporary;
  const std::string folder = temporary / "files";
  for (int number = 0; number < kFiles; ++number) {
    const std::string path = folder + "/" + file_name(number);
    if (number % 1000 == 0) std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << number;
  }
  const std::string run = temporary / "run";
  std::filesystem::create_directory(run);
  Store store(run);
  for (const int64_t report : {1, 2}) {
    std::filesystem::create_directories(run);
    auto stage = Stage::create(run, {.attempt = {1}, .worker = {1}}, report).ValueOrDie();
    ASSERT_TRUE(stage.copy_folder(folder).ok());
    const std::string staged = stage.finish().ValueOrDie();
    ASSERT_TRUE(store.publish({{0, staged}}, {.report = report}).ok());
  }
  auto published = store.list().ValueOrDie();
  ASSERT_EQ(published.size(), 2u);
  EXPECT_EQ(read_manifest(published[0].path).ValueOrDie().files.size(), static_cast<size_t>(kFiles));
  EXPECT_TRUE(verify(published[1].path).ok());

  std::ofstream(published[1].path + "/" + file_name(kFiles - 1)) << "damaged";
  EXPECT_FALSE(verify(published[1].path).ok());
  ASSERT_TRUE(store.remove(published[0].name).ok());
  ASSERT_TRUE(store.collect_leftovers().ok());
  published = store.list().ValueOrDie();
  ASSERT_EQ(published.size(), 1u);
  EXPECT_EQ(published[0].report, 2);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(run), {}), 1) << "nothing else is left";
}

}  // namespace
}  // namespace paceline::checkpoint
