#include "paceline/data/source/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "paceline/data/executor/large_buffers.h"
#include "paceline/data/source/source_testing_internal.h"
#include "paceline/data/testing_internal.h"

namespace paceline::data {
namespace {

namespace fs = std::filesystem;

// Ten chunks of 100 numbers that depend on the key; counts its reads.
class KeyedSource : public Source {
 public:
  explicit KeyedSource(uint64_t print = 1) : print_(print), chunks_(10, {.rows = 100, .bytes = 800}) {}
  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return numbers_of({})->schema(); }
  const std::vector<ChunkSize>& chunks() const override { return chunks_; }
  bool counts_rows() const override { return true; }
  uint64_t fingerprint() const override { return print_; }
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> read(int64_t chunk, uint64_t key) const override {
    ++reads;
    return numbers_of(std::vector<int64_t>(100, chunk + 10 * static_cast<int64_t>(key)));
  }
  mutable std::atomic<int> reads = 0;

 private:
  const uint64_t print_;
  const std::vector<ChunkSize> chunks_;
};

class CacheTest : public FilesTest {
 protected:
  // How many chunks of `epochs` have had to be made, all of which are the same.
  static int made(const std::shared_ptr<KeyedSource>& inner, const CacheOptions& options, int epochs,
                  const std::shared_ptr<Ledger>& ledger = std::make_shared<Ledger>(1 << 20)) {
    const int before = inner->reads;
    const DecodesInto reading(LargeBuffers::make(ledger));
    const auto source = cached(inner, options).ValueOrDie();
    for (int epoch = 0; epoch < epochs; ++epoch) {
      for (int64_t chunk = 0; chunk < 10; ++chunk) {
        EXPECT_EQ(values_of(**source->read(chunk, static_cast<uint64_t>(epoch))), std::vector<int64_t>(100, chunk));
      }
    }
    return inner->reads - before;
  }

  std::vector<fs::path> files() {
    std::vector<fs::path> all;
    for (const auto& file : fs::recursive_directory_iterator(folder_ / "cache")) {
      if (file.is_regular_file()) all.push_back(file.path());
    }
    return all;
  }

  const std::shared_ptr<KeyedSource> inner_ = std::make_shared<KeyedSource>();
};

TEST_F(CacheTest, MemoryCountsInTheBudgetOfWhoeverReads) {
  const auto small = std::make_shared<Ledger>(10'000);
  const auto large = std::make_shared<Ledger>(1'000'000);
  const auto source = cached(inner_, {}).ValueOrDie();
  const auto read_all = [&](const std::shared_ptr<Ledger>& ledger) {
    const DecodesInto reading(LargeBuffers::make(ledger));
    for (int64_t chunk = 0; chunk < 10; ++chunk) ASSERT_TRUE(source->read(chunk, 0).ok());
  };
  read_all(small);
  EXPECT_GE(small->held(), 4 * 800);
  EXPECT_LE(small->held(), 5'000);
  read_all(large);
  EXPECT_GE(large->held(), 10 * 800);
  EXPECT_EQ(small->held(), 0);
  read_all(small);
  EXPECT_LE(small->held(), 5'000);
  EXPECT_EQ(large->held(), 0);
  const auto beside = std::make_shared<Ledger>(10'000);
  EXPECT_EQ(made(inner_, {.bytes = 100'000}, 3, beside), 10);
  EXPECT_EQ(beside->held(), 0);
}

TEST_F(CacheTest, MemoryKeepsWhatItHasRoomFor) {
  EXPECT_EQ(made(inner_, {}, 3), 10);
  EXPECT_EQ(made(inner_, {.bytes = 0}, 3), 30);
  const int with_some = made(inner_, {.bytes = 5000}, 3);
  EXPECT_GT(with_some, 10);
  EXPECT_LT(with_some, 25) << "what was kept stays";
  EXPECT_NE(cached(inner_, {}).ValueOrDie()->fingerprint(), inner_->fingerprint());
}

TEST_F(CacheTest, TheDiskKeepsBlocksForOtherProcesses) {
  const CacheOptions options{.path = folder_ / "cache"};
  EXPECT_EQ(made(inner_, options, 2), 10);
  EXPECT_EQ(made(inner_, options, 2), 0);
  EXPECT_EQ(made(std::make_shared<KeyedSource>(2), options, 1), 10) << "of another source";
  EXPECT_EQ(made(inner_, {.path = folder_ / "cache", .version = 1}, 1), 10) << "of another version";
}

TEST_F(CacheTest, DamagedFilesAreMadeAnew) {
  const CacheOptions options{.path = folder_ / "cache"};
  made(inner_, options, 1);
  const auto all = files();
  ASSERT_EQ(all.size(), 10u);
  fs::resize_file(all[0], fs::file_size(all[0]) - 50);
  fs::resize_file(all[1], 3);
  std::fstream(all[2], std::ios::in | std::ios::out).seekp(600).put('x');
  EXPECT_EQ(made(inner_, options, 1), 3);
  EXPECT_EQ(made(inner_, options, 1), 0);
}

TEST_F(CacheTest, OlderDatasetsMakeRoomOnADisk) {
  made(inner_, {.path = folder_ / "cache"}, 1);
  int64_t bytes = 0;
  for (const auto& file : files()) bytes += static_cast<int64_t>(fs::file_size(file));
  const CacheOptions options{.bytes = bytes + 100, .path = folder_ / "cache"};
  EXPECT_EQ(made(std::make_shared<KeyedSource>(2), options, 2), 10);
  EXPECT_EQ(files().size(), 10u) << "those of the first are gone";
  EXPECT_EQ(made(inner_, {.bytes = bytes / 2, .path = folder_ / "cache"}, 2), 15) << "half of them find room";
}

TEST_F(CacheTest, ManyMayWriteAtOnce) {
  const CacheOptions options{.path = folder_ / "cache"};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { made(std::make_shared<KeyedSource>(), options, 3); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(files().size(), 10u);
  EXPECT_EQ(made(inner_, options, 1), 0);
}

TEST_F(CacheTest, AFolderThatCannotBeMadeIsAnError) {
  write("file", "");
  EXPECT_THAT(cached(inner_, {.path = folder_ / "file/cache"}).status().message(), ::testing::HasSubstr("cannot keep"));
}

}  // namespace
}  // namespace paceline::data
