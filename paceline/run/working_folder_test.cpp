#include "paceline/run/working_folder.h"

#include <gtest/gtest.h>

#include "paceline/run/journal.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::run {
namespace {

using testing::TemporaryFolder;
using testing::write_file;

struct WorkingFolderTest : ::testing::Test {
  const std::string first = "{\"event\":\"run_opened\",\"epoch\":1}\n";
  const std::string here = first + "{\"event\":\"run_opened\",\"epoch\":2,\"host\":\"here\"}\n";
  const std::string there = first + "{\"event\":\"run_opened\",\"epoch\":2,\"host\":\"there\"}\n";
  TemporaryFolder folder;

  bool is_right(const std::string& journal, const std::string& records, std::optional<bool> held_last) {
    write_file(journal_path(folder.path()), journal);
    return is_drivers_own(folder.path(), records, held_last);
  }
};

TEST_F(WorkingFolderTest, IsRightWhereTheLastDriverWas) {
  EXPECT_TRUE(is_right(here, here, true));
  EXPECT_TRUE(is_right(here, first, true)) << "the records lag behind";
  EXPECT_TRUE(is_right(here, there, true)) << "a piece of a driver before it has arrived late";
  EXPECT_FALSE(is_right(first, here, true)) << "the folder has lost its end";
}

// Two starts here whose records were never copied have a later epoch than the driver that came then, elsewhere.
TEST_F(WorkingFolderTest, IsOutOfDateWhereAnotherHadTheRunSince) {
  const std::string later = here + "{\"event\":\"run_opened\",\"epoch\":3}\n";
  EXPECT_FALSE(is_right(later, there, false));
  EXPECT_TRUE(is_right(later, first, false)) << "the other wrote nothing";
  EXPECT_TRUE(is_right(later, there, std::nullopt)) << "without claims only the epochs tell";
  EXPECT_FALSE(is_right(here, there, std::nullopt));
}

TEST_F(WorkingFolderTest, AReadersCopyIsNoDrivers) {
  ASSERT_TRUE(mark_as_reader_copy(folder.path()).ok());
  EXPECT_FALSE(is_right(here, here, true));
}

}  // namespace
}  // namespace paceline::run
