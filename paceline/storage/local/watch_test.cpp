#include "paceline/storage/local/watch.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <fstream>

#include "paceline/testing/temporary_folder.h"

namespace paceline::storage {
namespace {

bool has_news(const Watch& watch) {
  pollfd events{watch.descriptor(), POLLIN, 0};
  return ::poll(&events, 1, 0) == 1;
}

TEST(Watch, TellsOfChanges) {
  const testing::TemporaryFolder folder;
  auto watch = Watch::create().ValueOrDie();
  ASSERT_TRUE(watch.add(folder.path()).ok());
  EXPECT_FALSE(has_news(watch));
  std::ofstream file(folder / "log");
  EXPECT_TRUE(has_news(watch)) << "made";
  watch.clear();
  EXPECT_FALSE(has_news(watch));
  file << "line" << std::flush;
  EXPECT_TRUE(has_news(watch)) << "written";
  watch.clear();
  std::filesystem::rename(folder / "log", folder / "log.1");
  EXPECT_TRUE(has_news(watch)) << "renamed";
  EXPECT_TRUE(watch.add(folder / "missing").IsIOError());
}

}  // namespace
}  // namespace paceline::storage
