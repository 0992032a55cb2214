#include "paceline/storage/objects/file_mirror.h"

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <ranges>
#include <thread>
#include <utility>

#include "paceline/storage/local/durable.h"
#include "paceline/storage/memory_storage.h"
#include "paceline/testing/faulty_storage.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::storage {
namespace {

using ::testing::ElementsAre;
using testing::TemporaryFolder;
using testing::write_file;

constexpr std::chrono::seconds kPatience{60};

struct FileMirrorTest : ::testing::Test {
  std::shared_ptr<MemoryStorage> memory = std::make_shared<MemoryStorage>();
  TemporaryFolder folder;

  // One driver's life: whatever the files are when it ends is copied.
  void mirror() {
    FileMirror mirror(memory, folder.path(), [this] {
      std::vector<std::string> names;
      for (const char* name : {"journal", "logs/a.log"}) {
        if (std::filesystem::exists(folder / name)) names.emplace_back(name);
      }
      return names;
    });
    const arrow::Status copied = mirror.finish(kPatience);
    EXPECT_TRUE(copied.ok()) << copied.ToString();
  }
  void append(const std::string& name, const std::string& text) { std::ofstream(folder / name, std::ios::app) << text; }
  std::string mirrored(const std::string& name) {
    const auto content = read_mirrored(*memory, name);
    return content.ok() ? *content : content.status().ToString();
  }
};

TEST_F(FileMirrorTest, GrowingFilesAreReadAsTheyAre) {
  write_file(folder / "journal", "one\n");
  write_file(folder / "logs/a.log", std::string(3 * kSegmentBytes + 5, 'a'));
  mirror();
  EXPECT_EQ(mirrored("journal"), "one\n");
  EXPECT_TRUE(mirrored("logs/a.log") == std::string(3 * kSegmentBytes + 5, 'a'));
  append("journal", "two\n");
  append("logs/a.log", std::string(kSegmentBytes, 'b'));
  mirror();
  EXPECT_EQ(mirrored("journal"), "one\ntwo\n");
  EXPECT_TRUE(mirrored("logs/a.log") == std::string(3 * kSegmentBytes + 5, 'a') + std::string(kSegmentBytes, 'b'));
  EXPECT_THAT(mirrored_files(*memory).ValueOrDie(),
              ElementsAre(FileSize{"journal", 8}, FileSize{"logs/a.log", 4 * kSegmentBytes + 5}));
  EXPECT_TRUE(read_mirrored(*memory, "none").status().IsKeyError());
}

TEST_F(FileMirrorTest, WhatIsDeletedIsDeletedThere) {
  write_file(folder / "journal", "one\n");
  write_file(folder / "logs/a.log", std::string(kSegmentBytes + 5, 'a'));
  mirror();
  std::filesystem::remove(folder / "logs/a.log");
  mirror();
  EXPECT_THAT(mirrored_files(*memory).ValueOrDie(), ElementsAre(FileSize{"journal", 4}));
  // A folder that is lost as a whole takes nothing with it.
  std::filesystem::remove(folder / "journal");
  mirror();
  EXPECT_EQ(mirrored("journal"), "one\n");
}

TEST_F(FileMirrorTest, ADeletionThatFailsIsTriedAgain) {
  write_file(folder / "journal", "text");
  write_file(folder / "old.log", std::string(2 * kSegmentBytes, 'a'));
  std::atomic<bool> fails = false;
  const auto faulty =
      std::make_shared<testing::GuardedStorage>(memory, [&](const auto&, const std::string& name, int64_t) {
        const bool refused = fails && name.ends_with("old.log/000000");
        return refused ? arrow::Status::IOError("no") : arrow::Status::OK();
      });
  FileMirror mirror(faulty, folder.path(), [this] {
    std::vector<std::string> names = {"journal"};
    if (std::filesystem::exists(folder / "old.log")) names.emplace_back("old.log");
    return names;
  });
  mirror.push();
  while (mirrored("old.log").size() != 2 * kSegmentBytes) std::this_thread::yield();
  fails = true;
  std::filesystem::remove(folder / "old.log");
  mirror.push();
  while (mirrored_files(*memory).ValueOrDie()[1].size != kSegmentBytes) std::this_thread::yield();  // one is gone
  fails = false;
  EXPECT_TRUE(mirror.finish(kPatience).ok());
  EXPECT_THAT(mirrored_files(*memory).ValueOrDie(), ElementsAre(FileSize{"journal", 4}));
}

TEST_F(FileMirrorTest, OnlyTheLastSegmentIsWrittenAgain) {
  int64_t bytes = 0;
  const auto counting = std::make_shared<testing::GuardedStorage>(memory, [&](const auto&, const auto&, int64_t added) {
    bytes += added;
    return arrow::Status::OK();
  });
  write_file(folder / "journal", std::string(5 * kSegmentBytes, 'a'));
  mirror();
  append("journal", "b");
  FileMirror mirror(counting, folder.path(), [] { return std::vector<std::string>{"journal"}; });
  EXPECT_TRUE(mirror.finish(kPatience).ok());
  EXPECT_LE(bytes, kSegmentBytes + 1);
  EXPECT_EQ(mirrored("journal").size(), 5 * kSegmentBytes + 1);
}

// A thousand workers that print something every few seconds are a thousand files that grow.
// As a file system does it that gives the inode of the version before last to the next one.
TEST_F(FileMirrorTest, AnotherVersionOfTheSameSizeAndInodeIsCopied) {
  write_file(folder / "journal", "one\n");
  FileMirror mirror(memory, folder.path(), [] { return std::vector<std::string>{"journal"}; });
  mirror.push();
  while (mirrored("journal") != "one\n") std::this_thread::yield();
  const auto before = std::filesystem::last_write_time(folder / "journal");
  write_file(folder / "journal", "two\n");
  std::filesystem::last_write_time(folder / "journal", before + std::chrono::seconds(1));
  EXPECT_TRUE(mirror.finish(kPatience).ok());
  EXPECT_EQ(mirrored("journal"), "two\n");
}

TEST_F(FileMirrorTest, FilesThatTakeTurnsCostFewRequestsARoundAndNoneIsForgotten) {
  constexpr int kLogs = 50, kRounds = 40;
  std::map<std::string, int> copies;  // in the mirror's threads, under `mutex`
  std::mutex mutex;
  size_t in_round = 0, most = 0;
  const auto counting =
      std::make_shared<testing::GuardedStorage>(memory, [&](const auto& call, const auto& name, int64_t) {
        const std::lock_guard lock(mutex);
        if (call == "write") ++copies[name];
        in_round += call == "write" && name.find("logs/") != std::string::npos ? 1 : 0;
        return arrow::Status::OK();
      });
  std::vector<std::string> names = {"journal"};
  write_file(folder / "journal", "");
  for (int log = 0; log < kLogs; ++log) write_file(folder / names.emplace_back("logs/" + std::to_string(log)), "");
  std::promise<void> enough;
  int rounds = 0;
  FileMirror mirror(
      counting, folder.path(),
      [&] {
        for (const std::string& name : names) append(name, "a line\n");
        const std::lock_guard lock(mutex);
        most = std::max(most, std::exchange(in_round, 0));
        if (++rounds == kRounds) enough.set_value();
        return names;
      },
      {.interval = std::chrono::milliseconds(1), .takes_turns = [](const auto& name) { return name != "journal"; }});
  enough.get_future().wait();
  {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(most, FileMirror::kInTurn);
    const auto [least, greatest] =
        std::ranges::minmax(names | std::views::drop(1) |
                            std::views::transform([&](const auto& name) { return copies[mirrored_segment(name, 0)]; }));
    EXPECT_GT(least, 5);
    EXPECT_LE(greatest - least, 1);
    EXPECT_GE(copies[mirrored_segment("journal", 0)], kRounds - 1);
  }
  EXPECT_TRUE(mirror.finish(kPatience).ok());
  for (const std::string& name : names) EXPECT_EQ(mirrored(name), read_file(folder / name).ValueOrDie()) << name;
}

TEST_F(FileMirrorTest, WhatRestsIsCopiedOnceAndAtTheEnd) {
  write_file(folder / "samples", "first");
  write_file(folder / "journal", "0");
  std::promise<void> copied;
  int rounds = 0;
  {
    FileMirror mirror(memory, folder.path(),
                      [&] {
                        // By the third round the first copy of both is there.
                        if (++rounds == 3) copied.set_value();
                        if (rounds > 1) write_file(folder / "samples", "round " + std::to_string(rounds));
                        return std::vector<std::string>{"samples", "journal"};
                      },
                      {.interval = std::chrono::milliseconds(1),
                       .takes_turns = [](const auto& name) { return name == "samples"; },
                       .rests = [](const auto&) { return std::chrono::hours(1); }});
    copied.get_future().wait();
    EXPECT_EQ(mirrored("samples"), "first");
    EXPECT_TRUE(mirror.finish(kPatience).ok());
  }
  EXPECT_EQ(mirrored("samples"), read_file(folder / "samples").ValueOrDie());
}

// A driver before has sent it when it was shorter; the last driver's was there already.
TEST_F(FileMirrorTest, ASegmentThatHasArrivedLateIsWrittenAgain) {
  const std::string content = std::string(kSegmentBytes, 'a') + std::string(kSegmentBytes, 'b') + "c";
  write_file(folder / "journal", content);
  mirror();
  ASSERT_TRUE(memory->write(mirrored_segment("journal", 0), "aaa").ok());
  mirror();
  EXPECT_TRUE(mirrored("journal") == content);
}

// Of a driver that was taken for dead, whose log went on otherwise, and which had one more.
TEST_F(FileMirrorTest, WhatArrivesLateWhileTheMirrorLivesIsFoundAndPutRight) {
  const std::string content = std::string(kSegmentBytes, 'a') + std::string(kSegmentBytes, 'b') + "c";
  write_file(folder / "journal", content);
  FileMirror mirror(memory, folder.path(), [] { return std::vector<std::string>{"journal"}; },
                    {.interval = std::chrono::milliseconds(1), .looks_again = std::chrono::milliseconds(1)});
  while (mirrored("journal") != content) std::this_thread::yield();
  ASSERT_TRUE(memory->write(mirrored_segment("journal", 1), "bbb").ok());
  ASSERT_TRUE(memory->write(mirrored_segment("journal", 3), std::string(kSegmentBytes, 'd')).ok());
  ASSERT_TRUE(memory->write(mirrored_segment("old.log", 0), "text").ok());
  const auto is_right = [&] {
    return mirrored("journal") == content && mirrored_files(*memory).ValueOrDie().size() == 1;
  };
  while (!is_right()) std::this_thread::yield();
  EXPECT_TRUE(mirror.finish(kPatience).ok());
}

TEST_F(FileMirrorTest, ALateSegmentOfTheSameSizeIsReplacedAtTheEnd) {
  const std::string content = std::string(kSegmentBytes, 'a') + std::string(kSegmentBytes, 'b') + "c";
  write_file(folder / "journal", content);
  FileMirror mirror(memory, folder.path(), [] { return std::vector<std::string>{"journal"}; },
                    {.interval = std::chrono::hours(1), .looks_again = std::chrono::hours(1)});
  mirror.push();
  while (mirrored("journal") != content) std::this_thread::yield();
  for (const int64_t segment : {0, 1}) {
    ASSERT_TRUE(memory->write(mirrored_segment("journal", segment), std::string(kSegmentBytes, 'x')).ok());
  }
  EXPECT_TRUE(mirror.finish(kPatience).ok());
  EXPECT_TRUE(mirrored("journal") == content);
}

TEST_F(FileMirrorTest, ATornLineThatWasCutIsNotRead) {
  write_file(folder / "journal", std::string(kSegmentBytes, 'a') + "\ntorn");
  mirror();
  std::filesystem::resize_file(folder / "journal", kSegmentBytes - 10);
  mirror();
  EXPECT_EQ(mirrored("journal").size(), static_cast<size_t>(kSegmentBytes) - 10);
  append("journal", "X");
  mirror();
  EXPECT_EQ(mirrored("journal"), std::string(kSegmentBytes - 10, 'a') + "X");
}

TEST_F(FileMirrorTest, AStorageThatFailsIsTriedAgain) {
  write_file(folder / "journal", "text");
  std::atomic<bool> fails = true;
  const auto faulty = std::make_shared<testing::GuardedStorage>(memory, [&](const auto&, const auto&, int64_t) {
    return fails ? arrow::Status::IOError("no") : arrow::Status::OK();
  });
  FileMirror mirror(faulty, folder.path(), [] { return std::vector<std::string>{"journal"}; });
  mirror.push();
  fails = false;
  EXPECT_TRUE(mirror.finish(kPatience).ok());
  EXPECT_EQ(mirrored("journal"), "text");
}

}  // namespace
}  // namespace paceline::storage
