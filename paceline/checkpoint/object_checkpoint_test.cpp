#include "paceline/checkpoint/object_checkpoint.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "paceline/checkpoint/checkpoint_fixture.h"
#include "paceline/checkpoint/stage.h"
#include "paceline/checkpoint/store.h"
#include "paceline/core/run_layout.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/memory_storage.h"
#include "paceline/storage/objects/retrying_storage.h"
#include "paceline/testing/faulty_storage.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::checkpoint {
namespace {

using storage::MemoryStorage;
using storage::RetryingStorage;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryFolder;
using testing::write_file;

// A run whose checkpoints are objects in memory, and the checkpoint of report 7 as the folder that readers see.
struct ObjectRun {
  TemporaryFolder folder;
  std::shared_ptr<storage::Storage> objects = std::make_shared<MemoryStorage>();

  StagedPart stage(int64_t rank, const std::map<std::string, std::string>& files) {
    const std::string user = folder / ("user_" + std::to_string(rank));
    for (const auto& [name, content] : files) write_file(user + "/" + name, content);
    std::filesystem::create_directories(folder / "run");
    auto stage = Stage::create(folder / "run", worker(rank + 1), 1).ValueOrDie();
    EXPECT_TRUE(stage.copy_folder(user).ok());
    return {.rank = rank, .staged = stage.finish().ValueOrDie()};
  }
  arrow::Result<Published> publish(const std::vector<StagedPart>& parts) {
    return Store(folder / "run", objects).publish(parts, {.report = 7, .metrics = {{"loss", 0.5}}});
  }
  // As its readers have it: names without the checkpoint's own.
  std::unique_ptr<MemoryStorage> published() {
    auto checkpoint = std::make_unique<MemoryStorage>();
    const std::string name = run_layout::checkpoint_folder(7);
    for (const auto& file : objects->list(name).ValueOrDie()) {
      EXPECT_TRUE(
          checkpoint->write(file.name.substr(name.size() + 1), storage::read_whole(*objects, file.name).ValueOrDie())
              .ok());
    }
    return checkpoint;
  }
};

std::vector<std::string> names(const storage::Storage& storage) {
  std::vector<std::string> names;
  for (const auto& file : storage.list("").ValueOrDie()) names.push_back(file.name);
  return names;
}

TEST(ObjectCheckpoint, HasTheLowestRanksFilesAndNothingElse) {
  ObjectRun run;
  ASSERT_TRUE(run.objects->write("checkpoint_000007/of an attempt before", "x").ok());
  const auto published = run.publish({run.stage(0, {{"model", "of 0"}, {".metadata.json", "{}"}}),
                                      run.stage(1, {{"model", "of 1, longer"}, {"sub/shard", "one"}})});
  ASSERT_TRUE(published.ok()) << published.status().ToString();
  EXPECT_EQ(published->path, run.objects->location("checkpoint_000007"));
  EXPECT_THAT(names(*run.objects),
              ElementsAre("checkpoint_000007/.metadata.json", "checkpoint_000007/model",
                          "checkpoint_000007/paceline_manifest.json", "checkpoint_000007/sub/shard"));
  EXPECT_EQ(storage::read_whole(*run.objects, "checkpoint_000007/model").ValueOrDie(), "of 0");
  const auto listed = Store(run.folder / "run", run.objects).list().ValueOrDie();
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].metrics, (Json{{"loss", 0.5}}));
  EXPECT_TRUE(run.publish({run.stage(0, {{"model", "again"}})}).status().IsAlreadyExists());
}

// What ranks on other nodes send, and what is staged here.
TEST(ObjectCheckpoint, IsMadeOfStagesThatNodesHaveSent) {
  ObjectRun run;
  const std::vector<StagedPart> parts = {run.stage(0, {{"model", "of 0"}, {"sub/shard 0", "zero"}}),
                                         run.stage(1, {{"model", "of 1, longer"}, {".metadata.json", "{}"}}),
                                         run.stage(2, {{"sub/shard 2", "two"}})};
  for (const int64_t rank : {0, 1}) {
    const std::string& staged = parts[static_cast<size_t>(rank)].staged;
    ASSERT_TRUE(Stage::send(run.folder / "run", staged, *run.objects).ok());
    EXPECT_FALSE(std::filesystem::exists(run.folder / "run/" + staged));
  }
  const auto published = run.publish(parts);
  ASSERT_TRUE(published.ok()) << published.status().ToString();
  EXPECT_EQ(published->warning, "");
  EXPECT_THAT(names(*run.objects), ElementsAre("checkpoint_000007/.metadata.json", "checkpoint_000007/model",
                                               "checkpoint_000007/paceline_manifest.json",
                                               "checkpoint_000007/sub/shard 0", "checkpoint_000007/sub/shard 2"))
      << "nothing of the stages is left";
  EXPECT_EQ(storage::read_whole(*run.objects, "checkpoint_000007/model").ValueOrDie(), "of 0");
  const auto found = find_object_manifest(*run.published()).ValueOrDie();
  EXPECT_TRUE(verify_objects(*run.published(), found.manifest).ok());
}

TEST(ObjectCheckpoint, NeedsEveryStage) {
  ObjectRun run;
  const StagedPart part = run.stage(0, {{"model", "x"}});
  std::filesystem::remove_all(run.folder / "run/.staging");
  EXPECT_THAT(run.publish({part}).status().message(), HasSubstr("of rank 0: there is no file"));
}

TEST(ObjectCheckpoint, SentStagesOfAnEndedWorkerAreDeleted) {
  ObjectRun run;
  const StagedPart part = run.stage(0, {{"model", "x"}});
  ASSERT_TRUE(Stage::send(run.folder / "run", part.staged, *run.objects).ok());
  Store store(run.folder / "run", run.objects);
  store.expect_sent_stages();
  ASSERT_TRUE(store.discard_stages(worker(2).attempt, worker(2).worker).ok());
  EXPECT_FALSE(names(*run.objects).empty()) << "another worker's";
  ASSERT_TRUE(store.discard_stages(worker(1).attempt, worker(1).worker).ok());
  EXPECT_THAT(names(*run.objects), ElementsAre());
  ASSERT_TRUE(run.objects->write(".staging/driver/leftover", "x").ok());
  ASSERT_TRUE(store.collect_leftovers().ok());
  EXPECT_THAT(names(*run.objects), ElementsAre());
}

TEST(ObjectCheckpoint, RefusesAFileThatChangedSinceItWasStaged) {
  ObjectRun run;
  const StagedPart part = run.stage(0, {{"model", "as staged"}});
  write_file(run.folder / "run/" + part.staged + "/model", "as stageD");
  EXPECT_THAT(run.publish({part}).status().message(),
              AllOf(HasSubstr(part.staged + "/model is damaged"), HasSubstr("wanted")));
  EXPECT_TRUE(Store(run.folder / "run", run.objects).list().ValueOrDie().empty());
}

TEST(ObjectCheckpoint, RefusesWhatIsDamagedMissingOrTruncated) {
  ObjectRun run;
  ASSERT_TRUE(run.publish({run.stage(0, {{"model", "0123456789"}, {"sub/file", "x"}})}).ok());
  const auto refusals = [&](const std::function<void(storage::Storage&)>& damage) {
    const auto published = run.published();
    MemoryStorage& checkpoint = *published;
    damage(checkpoint);
    const auto manifest = find_object_manifest(checkpoint)->manifest;
    const TemporaryFolder target;
    const arrow::Status downloaded = download_objects(checkpoint, target / "down");
    EXPECT_TRUE(testing::names_in(target.path()).empty());
    return std::pair(verify_objects(checkpoint, manifest).message(), downloaded.message());
  };
  const auto flipped = refusals([](auto& checkpoint) { ASSERT_TRUE(checkpoint.write("model", "0123456788").ok()); });
  EXPECT_THAT(flipped.first, AllOf(HasSubstr("/model is damaged: its checksum is"), HasSubstr("wanted")));
  EXPECT_THAT(flipped.second, HasSubstr("/model is damaged"));
  const auto cut = refusals([](auto& checkpoint) { ASSERT_TRUE(checkpoint.write("model", "012345678").ok()); });
  EXPECT_THAT(cut.first, HasSubstr("/model has 9 bytes; wanted 10"));
  EXPECT_THAT(cut.second, HasSubstr("/model has 9 bytes; wanted 10"));
  const auto missing = refusals([](auto& checkpoint) { ASSERT_TRUE(checkpoint.remove("sub/file").ok()); });
  EXPECT_THAT(missing.first, HasSubstr("sub/file is missing; wanted 1 bytes"));
  EXPECT_THAT(missing.second, HasSubstr("sub/file is missing; wanted 1 bytes"));
}

TEST(ObjectCheckpoint, IsDownloadedWhole) {
  ObjectRun run;
  ASSERT_TRUE(run.publish({run.stage(0, {{"model", "0123456789"}, {"sub/file", ""}})}).ok());
  ASSERT_TRUE(download_objects(*run.published(), run.folder / "down").ok());
  EXPECT_THAT(testing::names_in(run.folder / "down"), ElementsAre("model", "paceline_manifest.json", "sub"));
  EXPECT_TRUE(verify(run.folder / "down").ok());
  EXPECT_THAT(download_objects(MemoryStorage(), run.folder / "none").message(), HasSubstr("there is no folder"));
}

TEST(ObjectCheckpoint, EndsWellOnAStorageThatFailsNowAndThen) {
  ObjectRun run;
  run.objects = std::make_shared<RetryingStorage>(testing::every_nth_fails(run.objects, 3), storage::RetryPolicy{},
                                                  [](Duration) {});
  std::map<std::string, std::string> files;
  for (int file = 0; file < 50; ++file) files["file_" + std::to_string(file)] = std::to_string(file);
  ASSERT_TRUE(run.publish({run.stage(0, files)}).ok());
  const auto checkpoint = run.published();
  EXPECT_TRUE(verify_objects(*checkpoint, find_object_manifest(*checkpoint)->manifest).ok());
  ASSERT_TRUE(Store(run.folder / "run", run.objects).remove("checkpoint_000007").ok());
  EXPECT_TRUE(names(*run.objects).empty());
}

TEST(ObjectCheckpoint, IsNotThereWhenTheSpaceEnds) {
  ObjectRun run;
  run.objects = testing::room_for(run.objects, 15);
  const auto published = run.publish({run.stage(0, {{"a", "0123456789"}, {"b", "0123456789"}})});
  EXPECT_THAT(published.status().message(), HasSubstr("No space left on device"));
  EXPECT_TRUE(Store(run.folder / "run", run.objects).list().ValueOrDie().empty());
}

}  // namespace
}  // namespace paceline::checkpoint
