#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "paceline/agent/output_internal.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::agent {
namespace {

using ::testing::ElementsAre;

TEST(LineSplitter, KeepsAnUnfinishedLineUntilItsEnd) {
  LineSplitter splitter;
  EXPECT_THAT(splitter.feed("a\nb"), ElementsAre("a"));
  EXPECT_THAT(splitter.feed("c"), ElementsAre());
  EXPECT_THAT(splitter.feed("\n\nd"), ElementsAre("bc", ""));
  EXPECT_THAT(splitter.finish(), ElementsAre("d"));
  EXPECT_THAT(splitter.finish(), ElementsAre());
}

TEST(LineSplitter, CutsVeryLongLines) {
  LineSplitter splitter;
  const std::string longest(LineSplitter::kMaxBytes, 'x');
  EXPECT_THAT(splitter.feed(longest), ElementsAre());
  EXPECT_THAT(splitter.feed("\n"), ElementsAre(longest));
  EXPECT_THAT(splitter.feed(longest + "y\n"), ElementsAre(longest, "y"));
  EXPECT_THAT(splitter.feed(longest + longest), ElementsAre(longest));
  EXPECT_THAT(splitter.finish(), ElementsAre(longest));
}

TEST(LineSplitter, PortionsDoNotMatter) {
  std::mt19937 random(7);
  std::string text;
  for (int line = 0; line < 50; ++line) {
    const size_t size = random() % 20 == 0 ? random() % (3 * LineSplitter::kMaxBytes) : random() % 100;
    text += std::string(size, static_cast<char>('a' + line % 26)) + "\n";
  }
  LineSplitter whole;
  const Lines expected = whole.feed(text);
  for (int trial = 0; trial < 20; ++trial) {
    LineSplitter splitter;
    Lines lines;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + random() % (trial % 2 == 0 ? 100 : 100000);
      for (std::string& line : splitter.feed(std::string_view(text).substr(at, size))) lines.push_back(std::move(line));
      at += size;
    }
    EXPECT_EQ(lines, expected);
  }
}

class LogFileTest : public ::testing::Test {
 protected:
  // What the files hold, the oldest first.
  std::string kept() {
    std::string text;
    for (int number = 20; number >= 0; --number) {
      const std::string path = path_ + (number == 0 ? "" : "." + std::to_string(number));
      std::ifstream file(path);
      text.append(std::istreambuf_iterator<char>(file), {});
    }
    return text;
  }
  paceline::testing::TemporaryFolder folder_;
  const std::string path_ = folder_ / "worker_7.log";
};

TEST_F(LogFileTest, WithoutALimitEverythingStays) {
  auto log = RotatingLog::open(path_, {}).ValueOrDie();
  for (int i = 0; i < 100; ++i) log.append({"line"});
  EXPECT_EQ(kept().size(), 500u);
  EXPECT_THAT(paceline::testing::names_in(folder_.path()), ElementsAre("worker_7.log"));
}

TEST_F(LogFileTest, OfAFloodTheEndStaysInWholeLines) {
  auto log = RotatingLog::open(path_, {.file_bytes = 1000, .most_files = 3}).ValueOrDie();
  std::string all;
  for (int i = 0; i < 2000; ++i) {
    const Lines lines = {"line " + std::to_string(2 * i), "line " + std::to_string(2 * i + 1)};
    for (const std::string& line : lines) all += line + "\n";
    log.append(lines);
  }
  EXPECT_THAT(paceline::testing::names_in(folder_.path()),
              ElementsAre("worker_7.log", "worker_7.log.1", "worker_7.log.2"));
  for (const std::string& name : paceline::testing::names_in(folder_.path())) {
    EXPECT_LE(std::filesystem::file_size(folder_ / name), 1000u);
  }
  const std::string text = kept();
  EXPECT_GT(text.size(), 1900u);
  EXPECT_TRUE(all.ends_with("\n" + text)) << "whole lines, none missing between";
}

TEST_F(LogFileTest, OneCallMayFillManyFiles) {
  auto log = RotatingLog::open(path_, {.file_bytes = 10, .most_files = 2}).ValueOrDie();
  log.append({"one", "two", "a line that is longer than a file", "three", "four", "five"});
  EXPECT_EQ(kept(), "three\nfour\nfive\n");
}

TEST_F(LogFileTest, ALogThatIsThereIsContinued) {
  RotatingLog::open(path_, {.file_bytes = 10, .most_files = 2})->append({"before"});
  RotatingLog::open(path_, {.file_bytes = 10, .most_files = 2})->append({"after"});
  EXPECT_EQ(kept(), "before\nafter\n");
  RotatingLog::open(path_, {.file_bytes = 10, .most_files = 1})->append({"only this"});
  EXPECT_EQ(paceline::testing::names_in(folder_.path()).size(), 2u) << "files of an earlier limit stay";
}

}  // namespace
}  // namespace paceline::agent
