#include "paceline/core/rotating_log.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "paceline/testing/temporary_folder.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using Lines = std::vector<std::string>;

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
}  // namespace paceline
