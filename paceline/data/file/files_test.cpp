#include "paceline/data/file/files.h"

#include <arrow/filesystem/localfs.h>
#include <arrow/filesystem/mockfs.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "paceline/data/file/glob_internal.h"
#include "paceline/storage/objects/scheme.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Names = std::vector<std::string>;

bool glob_matches(std::string_view pattern, std::string_view path) {
  return matches(names_of(pattern), names_of(path));
}

TEST(GlobTest, MatchesAsAShellDoes) {
  EXPECT_TRUE(glob_matches("*.csv", "a.csv"));
  EXPECT_FALSE(glob_matches("*.csv", "a/b.csv"));
  EXPECT_TRUE(glob_matches("a*b*c", "aXbXbXc"));
  EXPECT_FALSE(glob_matches("a*b*c", "aXbXbX"));
  EXPECT_TRUE(glob_matches("?.csv", "ä.csv"));
  EXPECT_FALSE(glob_matches("?.csv", ".csv"));
  EXPECT_TRUE(glob_matches("[a-cx]1", "b1"));
  EXPECT_TRUE(glob_matches("[]]", "]"));
  EXPECT_FALSE(glob_matches("[!a-c]1", "b1"));
  EXPECT_TRUE(glob_matches("[!a-c]1", "ü1"));
  EXPECT_TRUE(glob_matches("a[", "a["));
  EXPECT_TRUE(glob_matches("**/x", "x"));
  EXPECT_TRUE(glob_matches("a/**/x", "a/b/c/x"));
  EXPECT_FALSE(glob_matches("a/**/x", "a/.b/x"));
  EXPECT_FALSE(glob_matches("*", "_x"));
  EXPECT_TRUE(glob_matches("_*", "_x"));
}

class ListFilesTest : public ::testing::Test {
 protected:
  void write(const Names& names) {
    for (const std::string& name : names) testing::write_file(folder_ / name, "x");
  }
  // Names below the test's folder.
  Names listed(Names paths, const ListOptions& options = {}) {
    for (std::string& path : paths) path = folder_ / path;
    const auto files = list_files(file_system_, paths, options);
    EXPECT_TRUE(files.ok()) << files.status().ToString();
    Names names;
    if (files.ok()) {
      for (const auto& file : *files) names.push_back(file.path().substr(folder_.path().size() + 1));
    }
    return names;
  }
  std::string error(Names paths, const ListOptions& options = {}) {
    for (std::string& path : paths) path = folder_ / path;
    return list_files(file_system_, paths, options).status().message();
  }

  testing::TemporaryFolder folder_;
  arrow::fs::LocalFileSystem file_system_;
};

TEST_F(ListFilesTest, FoldersAreSearchedWithoutWhatIsHidden) {
  write(
      {"d/b.csv", "d/a.csv", "d/sub/c.csv", "d/_SUCCESS", "d/.a.crc", "d/_tmp/d.csv", "d/.git/e.csv", "_named/f.csv"});
  EXPECT_THAT(listed({"d"}), ElementsAre("d/a.csv", "d/b.csv", "d/sub/c.csv"));
  EXPECT_THAT(listed({"d/"}), ElementsAre("d/a.csv", "d/b.csv", "d/sub/c.csv"));
  EXPECT_THAT(listed({"_named", "d/_SUCCESS"}), ElementsAre("_named/f.csv", "d/_SUCCESS"));
}

TEST_F(ListFilesTest, LinksDoNotMultiplyWhatIsThere) {
  write({"d/a", "d/v1/b", "d/.store/c", "elsewhere/e"});
  std::filesystem::create_directory_symlink(".", folder_ / "d/latest");
  std::filesystem::create_directory_symlink("v1", folder_ / "d/current");
  std::filesystem::create_directory_symlink(folder_ / "d", folder_ / "d/v1/up");
  std::filesystem::create_directory_symlink(folder_ / "elsewhere", folder_ / "d/other");
  std::filesystem::create_directory_symlink(".store", folder_ / "d/shown");
  EXPECT_THAT(listed({"d"}), ElementsAre("d/a", "d/other/e", "d/shown/c", "d/v1/b"));
  EXPECT_THAT(listed({"d/current"}),
              ElementsAre("d/current/b", "d/current/up/a", "d/current/up/other/e", "d/current/up/shown/c"));
  EXPECT_THAT(listed({"d/**/current/*"}), ElementsAre("d/current/b")) << "a pattern may name a link";
  EXPECT_THAT(listed({"d/*/b"}), ElementsAre("d/current/b", "d/v1/b")) << "as a shell has it";
}

TEST_F(ListFilesTest, PathsKeepTheirOrderAndMayRepeat) {
  write({"d/b", "d/a", "z"});
  EXPECT_THAT(listed({"z", "d", "d/a", "z"}), ElementsAre("z", "d/a", "d/b", "d/a", "z"));
}

TEST_F(ListFilesTest, ExtensionsAreForFoldersAndGlobs) {
  write({"d/a.CSV", "d/b.csv.gz", "d/c.json", "d/csv", "d/.csv", "d/xcsv"});
  EXPECT_THAT(listed({"d"}, {.file_extensions = {"csv"}}), ElementsAre("d/a.CSV"));
  EXPECT_THAT(listed({"d/*"}, {.file_extensions = {"csv.gz", "JSON"}}), ElementsAre("d/b.csv.gz", "d/c.json"));
  EXPECT_THAT(listed({"d/c.json"}, {.file_extensions = {"csv"}}), ElementsAre("d/c.json"));
  EXPECT_THAT(error({"d"}, {.file_extensions = {"txt"}}), AllOf(HasSubstr("ends with .txt"), HasSubstr(folder_ / "d")));
}

TEST_F(ListFilesTest, Globs) {
  write({"y=1/a.csv", "y=2/b.csv", "y=2/deep/c.csv", "y=2/_hidden.csv", "z/d.csv", "e.csv"});
  EXPECT_THAT(listed({"y=*/*.csv"}), ElementsAre("y=1/a.csv", "y=2/b.csv"));
  EXPECT_THAT(listed({"y=*"}), ElementsAre("y=1/a.csv", "y=2/b.csv", "y=2/deep/c.csv"));
  EXPECT_THAT(listed({"**/*.csv"}), ElementsAre("e.csv", "y=1/a.csv", "y=2/b.csv", "y=2/deep/c.csv", "z/d.csv"));
  EXPECT_THAT(listed({"**"}).size(), 5u);
  EXPECT_THAT(listed({"y=[13]/?.csv"}), ElementsAre("y=1/a.csv"));
  EXPECT_THAT(listed({"y=2/**/[bc].csv"}), ElementsAre("y=2/b.csv", "y=2/deep/c.csv"));
  EXPECT_THAT(error({"y=3*"}), AllOf(HasSubstr("no file or folder matches"), HasSubstr(folder_ / "y=3*")));
  EXPECT_THAT(error({"none/*"}), HasSubstr("none/*"));
}

TEST_F(ListFilesTest, AFileMayHaveTheNameOfAGlob) {
  write({"a[1].csv", "a1.csv"});
  EXPECT_THAT(listed({"a[1].csv"}), ElementsAre("a[1].csv"));
}

TEST_F(ListFilesTest, NamesNeedNotBeUtf8) {
  const std::string name = "d/\xFF\xFE.csv";
  write({name});
  EXPECT_THAT(listed({"d"}), ElementsAre(name));
  EXPECT_THAT(listed({"d/?\xFE.c*"}), ElementsAre(name));
  EXPECT_THAT(listed({name}), ElementsAre(name));
}

TEST_F(ListFilesTest, WhatIsMissingIsAnErrorThatNamesIt) {
  write({"a"});
  std::filesystem::create_directory(folder_ / "empty");
  EXPECT_THAT(error({"a", "none"}), AllOf(HasSubstr(folder_ / "none"), HasSubstr("ignore_missing_paths")));
  EXPECT_THAT(listed({"a", "none", "*.none"}, {.ignore_missing_paths = true}), ElementsAre("a"));
  EXPECT_THAT(error({"none"}, {.ignore_missing_paths = true}), HasSubstr("there is no file in " + folder_ / "none"));
  EXPECT_THAT(error({"empty"}), HasSubstr("there is no file in " + folder_ / "empty"));
  EXPECT_THAT(listed({"a", "empty"}), ElementsAre("a"));
  EXPECT_THAT(error({}), HasSubstr("no path was given"));
}

TEST(ListFilesInAStoreTest, PathsHaveNoSlashInFront) {
  arrow::fs::internal::MockFileSystem store(arrow::fs::TimePoint{});
  ASSERT_TRUE(store.CreateFile("bucket/d/a.csv", "x").ok());
  ASSERT_TRUE(store.CreateFile("bucket/e/b.csv", "x").ok());
  const auto files = list_files(store, {"bucket/*/*.csv", "bucket", "*/e"}).ValueOrDie();
  Names names;
  for (const auto& file : files) names.push_back(file.path());
  EXPECT_THAT(names,
              ElementsAre("bucket/d/a.csv", "bucket/e/b.csv", "bucket/d/a.csv", "bucket/e/b.csv", "bucket/e/b.csv"));
}

TEST(OpenLocationTest, LocalPaths) {
  const std::string here = std::filesystem::current_path();
  EXPECT_EQ(open_location("a/b")->path, here + "/a/b");
  EXPECT_EQ(open_location("/a/*.csv")->path, "/a/*.csv");
  EXPECT_EQ(open_location("file:///a%20b/")->path, "/a b");
  EXPECT_EQ(open_location("/a")->file_system->type_name(), "local");
}

TEST(OpenLocationTest, ObjectStoresAreOpenedWithoutARequest) {
  const auto* const s3 = storage::scheme_of("s3://b");
  if (!s3->is_built_in) GTEST_SKIP() << "the Arrow of this build has no S3";
  const Place place = open_location("s3://anonymous@bucket/a b/[0-9]*.csv?region=eu-west-1").ValueOrDie();
  EXPECT_EQ(place.file_system->type_name(), "s3");
  EXPECT_EQ(place.path, "bucket/a b/[0-9]*.csv");
}

TEST(OpenLocationTest, OthersAreRefused) {
  EXPECT_THAT(open_location("ftp://host/a").status().message(), AllOf(HasSubstr("ftp"), HasSubstr("s3://BUCKET")));
  EXPECT_FALSE(open_location("").ok());
  EXPECT_THAT(open_location("s3://KEY:SEC/RET@bucket/a").status().message(), ::testing::Not(HasSubstr("RET")));
  EXPECT_FALSE(open_location("s3://").ok());
}

}  // namespace
}  // namespace paceline::data
