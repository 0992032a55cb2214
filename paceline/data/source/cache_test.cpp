#include "paceline/data/source/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "paceline/data/memory/decoding.h"
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
    const Decoding reading(ledger);
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
      if (file.path().extension() == ".arrows") all.push_back(file.path());
    }
    std::ranges::sort(all);
    return all;
  }

  // Where the blocks are, all of one source.
  fs::path block_folder() { return files().front().parent_path(); }

  int64_t bytes() {
    int64_t sum = 0;
    for (const auto& file : files()) sum += static_cast<int64_t>(fs::file_size(file));
    return sum;
  }

  const std::shared_ptr<KeyedSource> inner_ = std::make_shared<KeyedSource>();
};

TEST_F(CacheTest, MemoryCountsInTheBudgetOfWhoeverReads) {
  const auto small = std::make_shared<Ledger>(10'000);
  const auto large = std::make_shared<Ledger>(1'000'000);
  const auto source = cached(inner_, {}).ValueOrDie();
  const auto read_all = [&](const std::shared_ptr<Ledger>& ledger) {
    const Decoding reading(ledger);
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
  const CacheOptions options{.bytes = bytes() + 100, .path = folder_ / "cache"};
  EXPECT_EQ(made(std::make_shared<KeyedSource>(2), options, 2), 10);
  EXPECT_EQ(files().size(), 10u) << "those of the first are gone";
  EXPECT_EQ(made(inner_, {.bytes = bytes() / 2, .path = folder_ / "cache"}, 2), 15) << "half of them find room";
}

// The folder may be one of the user's, that of the dataset itself.
TEST_F(CacheTest, WhatIsNotTheCachesStays) {
  const std::vector<std::string> others = {"cache/results/thesis.txt", "cache/0123456789abcdef/0.arrows",
                                           "cache/0123456789abcdef/notes.txt", "elsewhere/1.arrows"};
  for (const std::string& name : others) {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    write(name, std::string(100'000, 'x'));
  }
  fs::create_directory_symlink(folder_ / "elsewhere", folder_ / "cache/fedcba9876543210");
  made(inner_, {.path = folder_ / "cache"}, 1);
  const auto of_first = fs::directory_iterator(folder_ / "cache");
  fs::path mine;
  for (const auto& entry : of_first) {
    if (entry.path().filename().string().size() == 16 && fs::exists(entry.path() / "9.arrows")) mine = entry.path();
  }
  testing::write_file(mine / "my_notes.txt", "x");
  const CacheOptions options{.bytes = 20'000, .path = folder_ / "cache"};
  EXPECT_EQ(made(std::make_shared<KeyedSource>(2), options, 2), 10) << "what is not the cache's takes none of its room";
  EXPECT_FALSE(fs::exists(mine / "9.arrows")) << "there is no room for both";
  EXPECT_TRUE(fs::exists(mine / "my_notes.txt"));
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(folder_ / name)) << name;
}

TEST_F(CacheTest, IsForItsUserAlone) {
  made(inner_, {.path = folder_ / "new/cache"}, 1);
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "new/cache")) {
    EXPECT_EQ(entry.status().permissions() & (fs::perms::group_all | fs::perms::others_all), fs::perms::none);
  }
  EXPECT_EQ(fs::status(folder_ / "new/cache").permissions(), fs::perms::owner_all);
}

TEST_F(CacheTest, ABlockInThePlaceOfAnotherIsMadeAnew) {
  const CacheOptions options{.path = folder_ / "cache"};
  made(inner_, options, 1);
  const fs::path first = block_folder();
  fs::copy_file(first / "1.arrows", first / "0.arrows", fs::copy_options::overwrite_existing);
  EXPECT_EQ(made(inner_, options, 1), 1);
  const CacheOptions other{.path = folder_ / "cache", .version = 1};
  made(inner_, other, 1);
  for (const auto& file : files()) {
    if (file.filename() != "3.arrows" || file.parent_path() == first) continue;
    fs::copy_file(first / "3.arrows", file, fs::copy_options::overwrite_existing);
  }
  EXPECT_EQ(made(inner_, options, 1), 0);
  EXPECT_EQ(made(inner_, other, 1), 1) << "that of another version";
}

TEST_F(CacheTest, OnlyRegularFilesAreBlocks) {
  const CacheOptions options{.path = folder_ / "cache"};
  made(inner_, options, 1);
  fs::remove(files()[0]);
  ASSERT_EQ(::mkfifo((block_folder() / "0.arrows").c_str(), 0600), 0);
  fs::rename(block_folder() / "1.arrows", folder_ / "1.arrows");
  fs::create_symlink(folder_ / "1.arrows", block_folder() / "1.arrows");
  EXPECT_EQ(made(inner_, options, 1), 2);
  EXPECT_EQ(made(inner_, options, 1), 0);
}

TEST_F(CacheTest, WhatAKilledProgramLeftGoes) {
  made(inner_, {.path = folder_ / "cache"}, 1);
  const CacheOptions options{.bytes = bytes() + 100, .path = folder_ / "cache"};
  const fs::path left = block_folder() / ".unfinished_1_1";
  for (const auto& file : files()) fs::remove(file);
  testing::write_file(left, std::string(100'000, 'x'));
  EXPECT_EQ(made(inner_, options, 2), 10);
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(CacheTest, ADamagedBlockCountsOnce) {
  made(inner_, {.path = folder_ / "cache"}, 1);
  const CacheOptions options{.bytes = bytes() + 100, .path = folder_ / "cache"};
  const auto source = cached(inner_, options).ValueOrDie();
  const auto read_all = [&] {
    const int before = inner_->reads;
    for (int64_t chunk = 0; chunk < 10; ++chunk) EXPECT_TRUE(source->read(chunk, 0).ok());
    return inner_->reads - before;
  };
  for (int time = 0; time < 5; ++time) {
    for (const auto& file : files()) std::fstream(file, std::ios::in | std::ios::out).seekp(600).put('x');
    EXPECT_EQ(read_all(), 10);
    EXPECT_EQ(read_all(), 0);
  }
}

TEST_F(CacheTest, AWriteThatFailsTakesNoRoom) {
  made(inner_, {.path = folder_ / "cache"}, 1);
  const CacheOptions options{.bytes = bytes() + 100, .path = folder_ / "cache"};
  for (const auto& file : files()) {
    fs::remove(file);
    fs::create_directory(file);  // so that no file can be there
  }
  const auto source = cached(inner_, options).ValueOrDie();
  for (int64_t chunk = 0; chunk < 10; ++chunk) EXPECT_TRUE(source->read(chunk, 0).ok());
  for (const auto& file : files()) fs::remove(file);
  const int before = inner_->reads;
  for (int64_t chunk = 0; chunk < 20; ++chunk) EXPECT_TRUE(source->read(chunk % 10, 0).ok());
  EXPECT_EQ(inner_->reads - before, 10);
}

TEST_F(CacheTest, WhatOthersReadStaysAndAFullCacheSaysSoOnce) {
  const CacheOptions all{.path = folder_ / "cache"};
  made(inner_, all, 1);
  const CacheOptions options{.bytes = bytes() + 100, .path = folder_ / "cache"};
  const auto first = cached(inner_, options).ValueOrDie();
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(made(std::make_shared<KeyedSource>(2), options, 3), 30);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, ::testing::HasSubstr("is full"));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1);
  const int before = inner_->reads;
  for (int64_t chunk = 0; chunk < 10; ++chunk) EXPECT_TRUE(first->read(chunk, 0).ok());
  EXPECT_EQ(inner_->reads - before, 0);
}

TEST_F(CacheTest, AFolderThatSomebodyRemovesIsMadeAgain) {
  const auto source = cached(inner_, {.path = folder_ / "cache"}).ValueOrDie();
  fs::remove_all(folder_ / "cache");
  for (int64_t chunk = 0; chunk < 20; ++chunk) EXPECT_TRUE(source->read(chunk % 10, 0).ok());
  EXPECT_EQ(inner_->reads, 10);
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
