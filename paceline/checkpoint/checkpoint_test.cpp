#include "paceline/checkpoint/checkpoint.h"

#include <gmock/gmock.h>

#include "paceline/checkpoint/stage.h"
#include "paceline/checkpoint/store.h"
#include "paceline/core/error.h"
#include "paceline/storage/local/durable.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using testing::names_in;
using testing::TemporaryFolder;
using testing::write_file;

TEST(Checkpoint, IsAFolderOfTheUsers) {
  const TemporaryFolder folder;
  write_file(folder / "sub/file", "x");
  const Checkpoint checkpoint = Checkpoint::from_directory(folder.path());
  EXPECT_EQ(checkpoint.path(), folder.path());
  EXPECT_EQ(*checkpoint.as_directory(), folder.path());
  EXPECT_EQ(checkpoint, Checkpoint(checkpoint));
  ::setenv("HOME", folder.path().c_str(), 1);
  EXPECT_EQ(Checkpoint::from_directory("~/sub").path(), folder / "sub");
  EXPECT_THROW(Checkpoint::from_directory(folder / "missing"), StorageError);
  EXPECT_THROW(Checkpoint::from_directory(folder / "sub/file"), StorageError);
}

TEST(Checkpoint, CopiesItselfToAFolder) {
  const TemporaryFolder folder;
  write_file(folder / "from/sub/file", "new");
  write_file(folder / "to/sub/file", "old");
  const Checkpoint checkpoint = Checkpoint::from_directory(folder / "from");
  EXPECT_EQ(checkpoint.to_directory(folder / "to"), folder / "to");
  EXPECT_EQ(storage::read_file(folder / "to/sub/file").ValueOrDie(), "new");

  const std::string first = checkpoint.to_directory();
  const std::string second = checkpoint.to_directory();
  EXPECT_NE(first, second);
  EXPECT_THAT(names_in(second), ElementsAre("sub"));
  std::filesystem::remove_all(first);
  std::filesystem::remove_all(second);
}

TEST(Checkpoint, KeepsMetadata) {
  const TemporaryFolder folder;
  Checkpoint checkpoint = Checkpoint::from_directory(folder.path());
  EXPECT_EQ(checkpoint.get_metadata(), Json::object());
  checkpoint.set_metadata({{"note", "first"}, {"step", 1}});
  checkpoint.update_metadata({{"step", 2}});
  EXPECT_EQ(Checkpoint::from_directory(folder.path()).get_metadata(), Json({{"note", "first"}, {"step", 2}}));
  EXPECT_THROW(checkpoint.set_metadata(Json::array()), ConfigError);
  EXPECT_THAT(names_in(folder.path()), ElementsAre(".metadata.json"));
}

TEST(Checkpoint, MetadataThatNobodyCouldReadAreRefused) {
  const TemporaryFolder folder;
  Checkpoint checkpoint = Checkpoint::from_directory(folder.path());
  Json deep = Json::object();
  for (int level = 0; level <= kDeepestJson; ++level) deep = Json{{"deeper", deep}};
  EXPECT_THROW(checkpoint.set_metadata(deep), ConfigError);
  EXPECT_TRUE(checkpoint.get_metadata().empty());
}

TEST(Checkpoint, MetadataIsPublishedAndCanChangeAfterwards) {
  const TemporaryFolder run;
  const TemporaryFolder user;
  write_file(user / "file", "x");
  Checkpoint::from_directory(user.path()).set_metadata({{"note", "mine"}});
  auto stage = checkpoint::Stage::create(run.path(), {.attempt = {1}, .worker = {1}}, 1).ValueOrDie();
  ASSERT_TRUE(stage.copy_folder(user.path()).ok());
  const auto published =
      checkpoint::Store(run.path()).publish({{0, stage.finish().ValueOrDie()}}, {.report = 1}).ValueOrDie();
  Checkpoint checkpoint = CheckpointAccess::published(published.path);
  EXPECT_EQ(checkpoint.get_metadata(), Json({{"note", "mine"}}));
  checkpoint.set_metadata({{"note", "changed"}});
  EXPECT_TRUE(checkpoint::verify(published.path).ok());
  EXPECT_EQ(checkpoint.get_metadata(), Json({{"note", "changed"}}));
}

}  // namespace
}  // namespace paceline
