// Kills and full disks in the middle of changes: what was there before or after, never something between.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>

#include "paceline/storage/local/durable.h"
#include "paceline/storage/local/file_writer.h"
#include "paceline/testing/child_program.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::storage {
namespace {

using ::testing::ElementsAre;
using testing::names_in;
using testing::run_child;
using testing::TemporaryFolder;
using testing::was_killed;
using testing::write_file;

std::string old_content() {
  return std::string(3000, 'o');
}
std::string new_content() {
  return std::string(5000, 'n');
}

int write_in_child(const std::string& folder) {
  return write_atomically(folder + "/file", new_content()).ok() ? 0 : 1;
}
int move_in_child(const std::string& folder) {
  return move(folder + "/from", folder + "/to").ok() ? 0 : 1;
}

// A limit on the size of files stands for a full disk: the write fails half-way in the same places.
int write_with_small_disk(const std::string& folder) {
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{.rlim_cur = 4096, .rlim_max = 4096};
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
  const auto atomic = write_atomically(folder + "/file", new_content());
  const std::string content = new_content();
  auto writer = FileWriter::create(folder + "/large").ValueOrDie();
  auto plain = writer.append(std::as_bytes(std::span(content)));
  if (plain.ok()) plain = writer.finish().status();
  const bool as_wanted = atomic.IsIOError() && plain.IsIOError() &&
                         atomic.message().find("File too large") != std::string::npos &&
                         plain.message().find(folder + "/large") != std::string::npos;
  return as_wanted ? 0 : 1;
}

TEST(StorageFaults, AKillLeavesTheOldFileOrTheNewOneWhole) {
  for (const auto& [point, wanted] :
       std::map<std::string, std::string>{{"write_atomically.before_sync", old_content()},
                                          {"write_atomically.before_rename", old_content()},
                                          {"write_atomically.after_rename", new_content()}}) {
    const TemporaryFolder folder;
    write_file(folder / "file", old_content());
    ASSERT_TRUE(was_killed(run_child("write", folder.path(), point + "=kill"))) << point;
    EXPECT_EQ(read_file(folder / "file").ValueOrDie(), wanted) << point;
    ASSERT_TRUE(remove_temporary_files(folder.path()).ok());
    EXPECT_THAT(names_in(folder.path()), ElementsAre("file")) << point;
  }
}

TEST(StorageFaults, AnErrorLeavesTheOldFileAndNoTemporaryOne) {
  for (const char* point : {"write_atomically.before_sync", "write_atomically.before_rename"}) {
    const TemporaryFolder folder;
    write_file(folder / "file", old_content());
    EXPECT_EQ(WEXITSTATUS(run_child("write", folder.path(), std::string(point) + "=error")), 1);
    EXPECT_EQ(read_file(folder / "file").ValueOrDie(), old_content());
    EXPECT_THAT(names_in(folder.path()), ElementsAre("file"));
  }
}

TEST(StorageFaults, AKillLeavesAFolderInOnePlace) {
  for (const auto& [point, wanted] :
       std::map<std::string, std::string>{{"move.before_rename", "from"}, {"move.after_rename", "to"}}) {
    const TemporaryFolder folder;
    write_file(folder / "from/file", old_content());
    ASSERT_TRUE(was_killed(run_child("move", folder.path(), point + "=kill")));
    EXPECT_THAT(names_in(folder.path()), ElementsAre(wanted));
    EXPECT_EQ(read_file(folder.path() + "/" + wanted + "/file").ValueOrDie(), old_content());
  }
}

TEST(StorageFaults, AFullDiskLeavesTheOldFileAndNamesThePath) {
  const TemporaryFolder folder;
  write_file(folder / "file", old_content());
  EXPECT_TRUE(testing::ended_well(run_child("small_disk", folder.path(), "")));
  EXPECT_EQ(read_file(folder / "file").ValueOrDie(), old_content());
  EXPECT_THAT(names_in(folder.path()), ElementsAre("file", "large"));
}

}  // namespace
}  // namespace paceline::storage

int main(int argc, char** argv) {
  using namespace paceline::storage;
  paceline::testing::run_child_if_asked(
      argc, argv, {{"write", write_in_child}, {"move", move_in_child}, {"small_disk", write_with_small_disk}});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
