#include "paceline/loader/fetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "paceline/core/error.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

// SHA-256 of "digits\n" and of nothing.
constexpr const char* kDigitsSum = "08397b04ece2eeabd47f114647ca5cd998ee9b7c4e5ce6a2904381e63474bff5";
constexpr const char* kEmptySum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

class FetchTest : public ::testing::Test {
 protected:
  FetchTest() {
    std::string pattern = (fs::temp_directory_path() / "paceline_fetch_XXXXXX").string();
    base_ = mkdtemp(pattern.data());
  }
  ~FetchTest() override { fs::remove_all(base_); }

  /// Puts "digits" into the target and a line into a log outside of the folder.
  Fetcher fetcher() {
    return [this](const std::string& name, const fs::path& target) {
      std::ofstream(base_ / "log", std::ios::app) << name << std::endl;
      std::ofstream(target) << "digits\n";
    };
  }
  int64_t fetches() const {
    std::ifstream log(base_ / "log");
    return std::count(std::istreambuf_iterator<char>(log), {}, '\n');
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder())) names.push_back(entry.path().filename().string());
    return names;
  }
  fs::path folder() const { return base_ / "data" / "set"; }

  fs::path base_;
};

TEST_F(FetchTest, ManyProcessesFetchOnce) {
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        fetch_once(folder(), {{"train", kDigitsSum}, {"test", kDigitsSum}}, fetcher());
        _exit(fs::file_size(folder() / "test") == 7 ? 0 : 1);
      } catch (...) {
        _exit(2);
      }
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(fetches(), 2);
  EXPECT_THAT(names(), ::testing::UnorderedElementsAre("train", "test")) << "no lock and no partial file stays";
}

TEST_F(FetchTest, ADamagedFileIsRefusedAndFetchedAgain) {
  try {
    fetch_once(folder(), {{"train", kEmptySum}}, fetcher());
    FAIL();
  } catch (const StorageError& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("train"), ::testing::HasSubstr(kEmptySum),
                                               ::testing::HasSubstr(kDigitsSum)));
  }
  EXPECT_TRUE(names().empty());
  fetch_once(folder(), {{"train", kDigitsSum}}, fetcher());
  EXPECT_EQ(fetches(), 2);
}

TEST_F(FetchTest, WhatTheFetcherThrowsPassesThrough) {
  const auto fails = [](const std::string&, const fs::path&) { throw std::runtime_error("no network"); };
  EXPECT_THROW(fetch_once(folder(), {{"train", kDigitsSum}}, fails), std::runtime_error);
  EXPECT_TRUE(names().empty());
}

TEST_F(FetchTest, FetchesOnlyWhatIsMissing) {
  fetch_once(folder(), {{"train", kDigitsSum}}, fetcher());
  fetch_once(folder(), {{"train", kDigitsSum}, {"test", kDigitsSum}}, fetcher());
  EXPECT_EQ(fetches(), 2);
}

}  // namespace
}  // namespace paceline
