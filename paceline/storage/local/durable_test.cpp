#include "paceline/storage/local/durable.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "paceline/testing/temporary_folder.h"

namespace paceline::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::names_in;
using testing::TemporaryFolder;
using testing::write_file;

TEST(Local, WritesWholeFilesAndLeavesNoOther) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_atomically(folder / "file", "one").ok());
  ASSERT_TRUE(write_atomically(folder / "file", std::string("t\0wo", 4)).ok());
  EXPECT_EQ(read_file(folder / "file").ValueOrDie(), std::string("t\0wo", 4));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("file"));
}

TEST(Local, ReadsFilesThatHaveNoSize) {
  EXPECT_THAT(read_file("/proc/self/status").ValueOrDie(), HasSubstr("Pid:"));
}

TEST(Local, ErrorsNameThePathAndTheReason) {
  const TemporaryFolder folder;
  EXPECT_THAT(read_file(folder / "missing").status().message(),
              AllOf(HasSubstr(folder / "missing"), HasSubstr("No such file")));
  EXPECT_TRUE(write_atomically(folder / "missing/file", "x").IsIOError());
  EXPECT_TRUE(move(folder / "missing", folder / "there").IsIOError());
}

TEST(Local, MakesAndDeletesFolders) {
  const TemporaryFolder folder;
  ASSERT_TRUE(make_folders(folder / "a/b/c").ok());
  ASSERT_TRUE(make_folders(folder / "a/b/c").ok());
  write_file(folder / "a/b/c/file", "x");
  EXPECT_TRUE(make_folders(folder / "a/b/c/file").IsIOError());
  EXPECT_TRUE(make_folders(folder / "a/b/c/file/d").IsIOError());
  ASSERT_TRUE(move(folder / "a/b/c", folder / "c").ok());
  EXPECT_EQ(read_file(folder / "c/file").ValueOrDie(), "x");
  ASSERT_TRUE(remove_all(folder / "c").ok());
  ASSERT_TRUE(remove_all(folder / "c").ok());
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a"));
}

TEST(Local, FoldersBelowOneThatIsGoneAreNotMade) {
  const TemporaryFolder folder;
  ASSERT_TRUE(make_folders_below(folder.path(), "a/b").ok());
  ASSERT_TRUE(make_folders_below(folder.path(), "a/b").ok());
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b"));
  EXPECT_TRUE(make_folders_below(folder / "gone", "a/b").IsIOError());
  EXPECT_FALSE(std::filesystem::exists(folder / "gone"));
  testing::write_file(folder / "file", "");
  EXPECT_TRUE(make_folders_below(folder.path(), "file").IsIOError());
}

TEST(Local, WhatIsSetAsideReplacesNothing) {
  const TemporaryFolder folder;
  EXPECT_EQ(name_to_set_aside(folder / "file"), folder / "file.damaged");
  write_file(folder / "file.damaged", "");
  EXPECT_EQ(name_to_set_aside(folder / "file"), folder / "file.damaged_2");
  std::filesystem::create_symlink("nowhere", folder / "file.damaged_2");
  EXPECT_EQ(name_to_set_aside(folder / "file"), folder / "file.damaged_3");
}

TEST(Local, ListsFilesThroughLinks) {
  const TemporaryFolder folder;
  write_file(folder / "tree/z", "");
  write_file(folder / "tree/sub/.hidden", "");
  write_file(folder / "elsewhere/file", "");
  std::filesystem::create_directories(folder / "tree/empty");
  std::filesystem::create_directory_symlink("../elsewhere", folder / "tree/link");
  std::filesystem::create_directory_symlink("../elsewhere", folder / "tree/second");
  EXPECT_THAT(files_below(folder / "tree").ValueOrDie(), ElementsAre("link/file", "second/file", "sub/.hidden", "z"));
}

TEST(Local, RefusesCirclesSpecialFilesAndNamesOutsideUtf8) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "circle/sub");
  std::filesystem::create_directory_symlink("..", folder / "circle/sub/up");
  EXPECT_THAT(files_below(folder / "circle").status().message(), HasSubstr("circle"));
  std::filesystem::create_directories(folder / "special");
  ASSERT_EQ(::mkfifo((folder / "special/pipe").c_str(), 0600), 0);
  EXPECT_THAT(files_below(folder / "special").status().message(), HasSubstr("special/pipe is neither"));
  write_file(folder / "name/\xff", "");
  EXPECT_TRUE(files_below(folder / "name").status().IsInvalid());
  EXPECT_TRUE(files_below(folder / "missing").status().IsIOError());
}

TEST(Local, ProvesThatAFolderCanBeWritten) {
  const TemporaryFolder folder;
  ASSERT_TRUE(check_writable(folder / "new/deep").ok());
  EXPECT_TRUE(names_in(folder / "new/deep").empty());
  write_file(folder / "file", "");
  const auto status = check_writable(folder / "file/below");
  EXPECT_TRUE(status.IsIOError());
  EXPECT_THAT(status.message(), AllOf(HasSubstr("cannot write to the folder " + (folder / "file/below")),
                                      HasSubstr("Not a directory"), HasSubstr("storage path")));
}

}  // namespace
}  // namespace paceline::storage
