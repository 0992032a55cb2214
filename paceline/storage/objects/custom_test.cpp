#include "paceline/storage/objects/custom.h"

#include <arrow/filesystem/localfs.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "paceline/storage/storage.h"
#include "paceline/storage/store_path.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::testing {
namespace {

using storage::add_file_system;
using storage::custom_location;
using storage::Location;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::shared_ptr<arrow::fs::FileSystem> local_file_system() {
  return std::make_shared<arrow::fs::LocalFileSystem>();
}

TEST(CustomFileSystem, ItsIdIsInNoText) {
  const Location run = storage::join(custom_location("0123abcd", "py::fsspec+memory", "/runs/"), "my run");
  EXPECT_EQ(run.with_credentials(), "custom://0123abcd@fsspec+memory//runs/my%20run");
  EXPECT_EQ(run.text(), "custom://fsspec+memory//runs/my%20run");
  EXPECT_EQ(run.redacted("cannot open " + run.with_credentials() + " (0123abcd@)"),
            "cannot open " + run.text() + " (…)");
  EXPECT_EQ(storage::path_in_store(run).ValueOrDie(), "/runs/my run");
  EXPECT_EQ(storage::custom_id(run), "0123abcd");
  EXPECT_EQ(storage::custom_id(run.text()), "");
  EXPECT_EQ(storage::custom_id("/a@b/c"), "");
  EXPECT_EQ(run, Location(run.text())) << "the same place for a program that gives the file system again";
  EXPECT_EQ(custom_location("1", "py::fsspec+('file', 'local')", "").text(), "custom://fsspec+file-local");
}

TEST(CustomFileSystem, OnlyAProgramThatHasItOpensIt) {
  const Location run = custom_location("never_given", "mine", "runs/run");
  EXPECT_THAT(storage::open_storage(run).status().message(),
              AllOf(HasSubstr("custom://mine/runs/run"), HasSubstr("was not given"), Not(HasSubstr("never_given"))));
  EXPECT_THAT(storage::open_storage(Location(run.text())).status().message(),
              AllOf(HasSubstr("custom://mine/runs/run"), HasSubstr("storage_filesystem")));
}

TEST(CustomFileSystem, MakesFoldersOnlyWhereItWrites) {
  const TemporaryFolder folder;
  add_file_system("folders", local_file_system());
  const auto opened = storage::open_storage(custom_location("folders", "local", folder.path() + "/runs")).ValueOrDie();
  EXPECT_TRUE(opened->list().ValueOrDie().empty());
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/runs"));
  ASSERT_TRUE(opened->write("a/b/file", "text").ok());
  EXPECT_EQ(storage::read_whole(*opened, "a/b/file").ValueOrDie(), "text");
  EXPECT_TRUE(opened->open("a/c").status().IsKeyError());
  EXPECT_EQ(opened->list().ValueOrDie(), (std::vector<storage::FileSize>{{"a/b/file", 4}}));
  ASSERT_TRUE(opened->remove_below("a").ok());
  ASSERT_TRUE(opened->write("a/b/file", "again").ok());
}

}  // namespace
}  // namespace paceline::testing
