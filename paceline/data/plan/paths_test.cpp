#include "paceline/data/plan/paths.h"

#include <arrow/filesystem/mockfs.h>
#include <gmock/gmock.h>

#include "paceline/storage/objects/custom.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string missing(std::vector<std::string> paths, bool ignore = false) {
  const auto read = std::make_shared<Plan>(Plan{.kind = "read_parquet", .options = {{"paths", std::move(paths)}}});
  if (ignore) read->options["ignore_missing_paths"] = true;
  const arrow::Status found = check_paths({.kind = "limit", .options = {{"rows", 1}}, .inputs = {read}});
  return found.ok() ? "" : found.message();
}

TEST(Paths, WhatIsMissingIsToldBeforeAnythingIsRead) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "a/b.parquet", "no Parquet file");
  EXPECT_EQ(missing({folder.path(), folder / "a/b.parquet", folder / "*/b*"}), "");
  EXPECT_THAT(missing({folder.path(), folder / "a/c.parquet"}),
              HasSubstr("there is no file or folder " + (folder / "a/c.parquet")));
  EXPECT_THAT(missing({folder / "*/c*"}), HasSubstr("no file or folder matches"));
  EXPECT_EQ(missing({folder / "a/c.parquet"}, /*ignore=*/true), "");
}

TEST(Paths, OfAnObjectStoreSomeAreAskedFor) {
  const auto memory = std::make_shared<arrow::fs::internal::MockFileSystem>(arrow::fs::TimePoint());
  ASSERT_TRUE(memory->CreateDir("folder").ok());
  ASSERT_TRUE(memory->CreateFile("folder/a.parquet", "content").ok());
  storage::add_file_system("idOfPathsTest", memory);
  const auto there = [](const std::string& path) {
    return storage::custom_location("idOfPathsTest", "mock", path).with_credentials();
  };
  EXPECT_EQ(missing({there("folder"), there("folder/a.parquet"), there("none/*.parquet")}), "");
  EXPECT_THAT(missing({there("folder/b.parquet")}), AllOf(HasSubstr("there is no file or folder folder/b.parquet")));
}

TEST(Paths, AreThoseOfAllSteps) {
  const auto read = std::make_shared<Plan>(Plan{.kind = "read_csv", .options = {{"paths", {"/b", "/a"}}}});
  EXPECT_THAT(input_files({.kind = "union", .inputs = {read, read}}), ElementsAre("/a", "/b"));
}

}  // namespace
}  // namespace paceline::data
