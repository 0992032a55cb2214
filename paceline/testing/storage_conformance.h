// What every Storage must do: one suite, run against each implementation.
//
//     struct Memory {
//       std::shared_ptr<storage::Storage> storage();  // an empty one, the same at each call
//     };
//     INSTANTIATE_TYPED_TEST_SUITE_P(Memory, StorageConformance, Memory);
//
// `kLarge` of a factory, if it has one, is the size in bytes of the largest file.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "paceline/storage/storage.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::testing {

template <class Factory>
class StorageConformance : public ::testing::Test {
 protected:
  void SetUp() override { storage_ = factory_.storage(); }
  storage::Storage& storage() { return *storage_; }
  std::string read(const std::string& name) {
    const auto content = storage::read_whole(storage(), name);
    return content.ok() ? *content : content.status().ToString();
  }
  static size_t large() {
    if constexpr (requires { Factory::kLarge; }) return Factory::kLarge;
    return size_t{21} << 20;  // three parts of an upload
  }

  Factory factory_;
  std::shared_ptr<storage::Storage> storage_;
};

inline std::string varied_bytes(size_t size) {
  std::string bytes(size, '\0');
  uint32_t state = 1;
  for (char& byte : bytes) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

TYPED_TEST_SUITE_P(StorageConformance);

TYPED_TEST_P(StorageConformance, KeepsWhatIsWritten) {
  for (const std::string& content : {std::string("text"), std::string(), std::string("\0\xff\n", 3)}) {
    ASSERT_TRUE(this->storage().write("file", content).ok());
    EXPECT_EQ(this->read("file"), content);
  }
  for (const char* name : {"a/b/c", "with space", "ünïcode/ファイル", "100%", "a+b&c=d", ".hidden", "x#y?z"}) {
    const arrow::Status written = this->storage().write(name, name);
    ASSERT_TRUE(written.ok()) << written.ToString();
    EXPECT_EQ(this->read(name), name);
  }
}

TYPED_TEST_P(StorageConformance, RefusesNamesThatLeadElsewhere) {
  for (const char* name : {"", "/", "/a", "a/", "a//b", "../a", "a/../b", "./a"}) {
    EXPECT_TRUE(this->storage().write(name, "x").IsInvalid()) << name;
    EXPECT_TRUE(this->storage().open(name).status().IsInvalid()) << name;
    EXPECT_TRUE(this->storage().remove(name).IsInvalid()) << name;
  }
  EXPECT_TRUE(this->storage().list().ValueOrDie().empty());
}

TYPED_TEST_P(StorageConformance, SaysWhatIsMissing) {
  const auto missing = this->storage().open("no/such/file").status();
  EXPECT_TRUE(missing.IsKeyError()) << missing.ToString();
  EXPECT_NE(missing.message().find("no/such/file"), std::string::npos);
  ASSERT_TRUE(this->storage().write("folder/file", "x").ok());
  EXPECT_TRUE(this->storage().open("folder").status().IsKeyError());
  EXPECT_TRUE(this->storage().list("nothing").ValueOrDie().empty());
  EXPECT_TRUE(this->storage().remove("nothing").ok());
  EXPECT_TRUE(this->storage().remove_below("nothing").ok());
}

TYPED_TEST_P(StorageConformance, UploadsWithChecksum) {
  const TemporaryFolder local;
  for (const size_t size : {size_t{0}, size_t{1000}, this->large()}) {
    const std::string content = varied_bytes(size);
    write_file(local / "file", content);
    const auto sum = this->storage().upload(local / "file", "sub/uploaded");
    ASSERT_TRUE(sum.ok()) << sum.status().ToString();
    EXPECT_EQ(*sum, storage::checksum_of_file(local / "file").ValueOrDie());
    EXPECT_TRUE(this->read("sub/uploaded") == content) << "of size " << size;
  }
  EXPECT_FALSE(this->storage().upload(local / "none", "none").ok());
  EXPECT_TRUE(this->storage().open("none").status().IsKeyError());
}

TYPED_TEST_P(StorageConformance, Copies) {
  const std::string content = varied_bytes(this->large());
  ASSERT_TRUE(this->storage().write("from/a", content).ok());
  ASSERT_TRUE(this->storage().write("to/new folder/b", "earlier").ok());
  const arrow::Status copied = this->storage().copy("from/a", "to/new folder/b");
  ASSERT_TRUE(copied.ok()) << copied.ToString();
  ASSERT_TRUE(this->storage().remove("from/a").ok());
  EXPECT_TRUE(this->read("to/new folder/b") == content);
  EXPECT_TRUE(this->storage().copy("from/a", "c").IsKeyError());
  EXPECT_TRUE(this->storage().copy("../a", "c").IsInvalid());
  EXPECT_TRUE(this->storage().copy("to/new folder/b", "../c").IsInvalid());
}

TYPED_TEST_P(StorageConformance, ReadsRanges) {
  const std::string content = varied_bytes(this->large());
  ASSERT_TRUE(this->storage().write("file", content).ok());
  const auto file = this->storage().open("file").ValueOrDie();
  const auto end = static_cast<int64_t>(content.size());
  EXPECT_EQ(file->size(), end);
  for (const auto& [offset, size] : std::vector<std::pair<int64_t, size_t>>{{0, 10},
                                                                            {7, 0},
                                                                            {end / 2 - 5, 1000},
                                                                            {end - 3, 3},
                                                                            {end - 3, 100},
                                                                            {end, 10},
                                                                            {end + 5, 1},
                                                                            {1, 9u << 20}}) {
    std::string got(size, '\0');
    const auto count = file->read_at(offset, std::as_writable_bytes(std::span(got)));
    ASSERT_TRUE(count.ok()) << count.status().ToString();
    got.resize(*count);
    const std::string wanted = offset < end ? content.substr(static_cast<size_t>(offset), size) : "";
    EXPECT_TRUE(got == wanted) << size << " bytes at " << offset << ", got " << *count;
  }
}

TYPED_TEST_P(StorageConformance, ListsWithSizes) {
  using storage::FileSize;
  using ::testing::ElementsAre;
  for (const char* name : {"run/b", "run/a/1", "run/a/2", "runner", "other"}) {
    ASSERT_TRUE(this->storage().write(name, name).ok());
  }
  EXPECT_THAT(this->storage().list("run").ValueOrDie(),
              ElementsAre(FileSize{"run/a/1", 7}, FileSize{"run/a/2", 7}, FileSize{"run/b", 5}));
  EXPECT_THAT(this->storage().list("run/a").ValueOrDie(), ElementsAre(FileSize{"run/a/1", 7}, FileSize{"run/a/2", 7}));
  EXPECT_EQ(this->storage().list().ValueOrDie().size(), 5u);
}

TYPED_TEST_P(StorageConformance, Removes) {
  for (const char* name : {"run/a/1", "run/a/2", "run/ab", "run/b"}) {
    ASSERT_TRUE(this->storage().write(name, "x").ok());
  }
  ASSERT_TRUE(this->storage().remove_below("run/a").ok());
  EXPECT_THAT(this->storage().list().ValueOrDie(),
              ::testing::ElementsAre(storage::FileSize{"run/ab", 1}, storage::FileSize{"run/b", 1}));
  ASSERT_TRUE(this->storage().remove("run/b").ok());
  ASSERT_TRUE(this->storage().remove("run/ab").ok());
  EXPECT_TRUE(this->storage().list().ValueOrDie().empty());
  ASSERT_TRUE(this->storage().write("run/b", "again").ok());
  EXPECT_EQ(this->read("run/b"), "again");
}

// A reader sees the old content or the new one, and the list one file, while it is replaced.
TYPED_TEST_P(StorageConformance, ReplacesAtOnce) {
  const std::string old_content(10'000, 'o');
  const std::string new_content(10'000, 'n');
  ASSERT_TRUE(this->storage().write("file", old_content).ok());
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i)
      EXPECT_TRUE(this->storage().write("file", i % 2 == 0 ? new_content : old_content).ok());
  });
  for (int i = 0; i < 20; ++i) {
    const std::string content = this->read("file");
    EXPECT_TRUE(content == old_content || content == new_content) << content.substr(0, 200);
    EXPECT_EQ(this->storage().list().ValueOrDie().size(), 1u);
  }
  writer.join();
}

TYPED_TEST_P(StorageConformance, ServesManyThreads) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([this, thread] {
      const std::string name = "folder/" + std::to_string(thread);
      for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(this->storage().write(name, std::string(100, static_cast<char>('a' + thread))).ok());
        EXPECT_EQ(this->read(name), std::string(100, static_cast<char>('a' + thread)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(this->storage().list("folder").ValueOrDie().size(), 8u);
}

REGISTER_TYPED_TEST_SUITE_P(StorageConformance, KeepsWhatIsWritten, RefusesNamesThatLeadElsewhere, SaysWhatIsMissing,
                            UploadsWithChecksum, Copies, ReadsRanges, ListsWithSizes, Removes, ReplacesAtOnce,
                            ServesManyThreads);

}  // namespace paceline::testing
