// From tensors and folders of several ranks to a published checkpoint and back.
#include "paceline/checkpoint/store.h"

#include <gmock/gmock.h>

#include <cstring>
#include <numeric>
#include <random>

#include "paceline/checkpoint/checkpoint.h"
#include "paceline/checkpoint/checkpoint_fixture.h"
#include "paceline/checkpoint/stage.h"
#include "paceline/checkpoint/tensor_reader.h"
#include "paceline/storage/local/durable.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::names_in;
using testing::TemporaryFolder;
using testing::write_file;

std::span<const std::byte> bytes(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.5f);
  return values;
}

// Publishes `folders`, one of each rank, as report `report`.
Published publish_folders(const std::string& run, const std::vector<std::string>& folders, int64_t report,
                          const Json& metrics = Json::object()) {
  std::vector<StagedPart> parts;
  for (size_t rank = 0; rank < folders.size(); ++rank) {
    auto stage = Stage::create(run, worker(static_cast<int64_t>(rank) + 1), report).ValueOrDie();
    EXPECT_TRUE(stage.copy_folder(folders[rank]).ok());
    parts.push_back({.rank = static_cast<int64_t>(rank), .staged = stage.finish().ValueOrDie()});
  }
  return Store(run).publish(parts, {.report = report, .time = 12.5, .metrics = metrics}).ValueOrDie();
}

TEST(Store, PublishesFilesOfAllRanksTheLowestFirst) {
  const TemporaryFolder run;
  const TemporaryFolder user;
  write_file(user / "0/model.bin", "of rank 0");
  write_file(user / "0/sub/deep/file", "deep");
  write_file(user / "1/model.bin", "of rank 1, longer");
  write_file(user / "1/shard_1", "one");
  const Published checkpoint = publish_folders(run.path(), {user / "0", user / "1"}, 42, {{"loss", 0.5}});
  EXPECT_EQ(checkpoint.path, run / "checkpoint_000042");
  EXPECT_EQ(storage::read_file(checkpoint.path + "/model.bin").ValueOrDie(), "of rank 0");
  EXPECT_EQ(storage::read_file(checkpoint.path + "/sub/deep/file").ValueOrDie(), "deep");
  EXPECT_THAT(names_in(checkpoint.path.text()), ElementsAre("model.bin", "paceline_manifest.json", "shard_1", "sub"));
  EXPECT_TRUE(verify(checkpoint.path).ok());
  EXPECT_EQ(read_manifest(checkpoint.path)->files.at("shard_1").rank, 1);
  EXPECT_EQ(storage::read_file(user / "0/model.bin").ValueOrDie(), "of rank 0");
  EXPECT_TRUE(storage::files_below(run / ".staging").ValueOrDie().empty());
}

TEST(Store, DiscardsTheStagesOfOneWorkerOnly) {
  const TemporaryFolder run;
  for (const int64_t number : {1, 2}) {
    for (const int64_t report : {1, 2}) {
      auto stage = Stage::create(run.path(), worker(number), report).ValueOrDie();
      ASSERT_TRUE(stage.finish().ok());
    }
  }
  ASSERT_TRUE(Store(run.path()).discard_stages(Attempt{1}, WorkerId{1}).ok());
  EXPECT_THAT(names_in(run / ".staging/attempt_1"), ElementsAre("worker_2"));
  ASSERT_TRUE(Stage::discard(run.path(), ".staging/attempt_1/worker_2/report_1").ok());
  EXPECT_THAT(names_in(run / ".staging/attempt_1/worker_2"), ElementsAre("report_2", "report_2.json"));
}

TEST(Store, ListsInOrderDeletesAndNeverOverwrites) {
  const TemporaryFolder run;
  const TemporaryFolder user;
  write_file(user / "file", "x");
  for (const int64_t report : {7, 1000000, 2}) publish_folders(run.path(), {user.path()}, report, {{"report", report}});
  std::filesystem::create_directories(run / "checkpoint_000003");
  std::filesystem::create_directories(run / "checkpoint_best");
  const Store store(run.path());
  const auto list = store.list().ValueOrDie();
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].report, 2);
  EXPECT_EQ(list[2].report, 1000000);
  EXPECT_EQ(list[1].metrics, Json({{"report", 7}}));
  EXPECT_EQ(list[1].time, 12.5);

  ASSERT_TRUE(Store(run.path()).remove("checkpoint_000007").ok());
  ASSERT_TRUE(Store(run.path()).remove("checkpoint_000007").ok());
  EXPECT_EQ(store.list()->size(), 2u);

  publish_folders(run.path(), {user.path()}, 3);  // what lies there is no checkpoint
  auto stage = Stage::create(run.path(), worker(1), 2).ValueOrDie();
  const auto again = Store(run.path()).publish({{.rank = 0, .staged = stage.finish().ValueOrDie()}}, {.report = 2});
  EXPECT_TRUE(again.status().IsAlreadyExists());
  EXPECT_TRUE(verify(run / "checkpoint_000002").ok());
}

TEST(Store, FilesThatStandInPlaceStayAndOthersJoinThem) {
  const TemporaryFolder run;
  const TemporaryFolder user;
  write_file(user / "shared", "of rank 0");
  write_file(run / "best/shared", "of rank 1");
  write_file(run / "best/sub/shard_1", "one");
  auto copied = Stage::create(run.path(), worker(1), 1).ValueOrDie();
  ASSERT_TRUE(copied.copy_folder(user.path()).ok());
  auto placed = Stage::create(run.path(), worker(2), 1).ValueOrDie();
  ASSERT_TRUE(placed.adopt_folder("best").ok());
  EXPECT_THAT(Store(run.path()).list().ValueOrDie(), IsEmpty()) << "no manifest, no checkpoint";
  const std::vector<StagedPart> parts = {{0, copied.finish().ValueOrDie()}, {1, placed.finish().ValueOrDie()}};
  const auto published = Store(run.path()).publish(parts, {.report = 1}).ValueOrDie();
  EXPECT_EQ(published.path, run / "best");
  EXPECT_EQ(published.name, "best");
  EXPECT_EQ(storage::read_file(run / "best/shared").ValueOrDie(), "of rank 0");
  EXPECT_TRUE(verify(run / "best").ok());
  EXPECT_EQ(read_manifest(run / "best")->files.at("sub/shard_1").rank, 1);

  auto again = Stage::create(run.path(), worker(1), 2).ValueOrDie();
  ASSERT_TRUE(again.adopt_folder("best").ok());
  ASSERT_TRUE(Store(run.path()).publish({{0, again.finish().ValueOrDie()}}, {.report = 2}).ok());
  EXPECT_EQ(Store(run.path()).list()->size(), 1u);
  EXPECT_EQ(read_manifest(run / "best")->report, 2);
  ASSERT_TRUE(Store(run.path()).remove("best").ok());
  EXPECT_FALSE(std::filesystem::exists(run / "best"));
}

TEST(Store, FoldersInPlaceMustBeOne) {
  const TemporaryFolder run;
  std::vector<StagedPart> parts;
  for (const int64_t rank : {0, 1}) {
    const std::string name = rank == 0 ? "good" : "better";
    write_file(run / name + "/file", "x");
    auto stage = Stage::create(run.path(), worker(rank + 1), 1).ValueOrDie();
    ASSERT_TRUE(stage.adopt_folder(name).ok());
    parts.push_back({rank, stage.finish().ValueOrDie()});
  }
  EXPECT_THAT(Store(run.path()).publish(parts, {.report = 1}).status().message(),
              HasSubstr("rank 0 into \"good\", rank 1 into \"better\""));
  EXPECT_THAT(Store(run.path()).publish({parts[0]}, {.report = 1, .name = "best"}).status().message(),
              HasSubstr("is to be called \"best\""));
  EXPECT_THAT(names_in(run / "good"), ElementsAre("file"));
}

TEST(Store, ACheckpointHasTheNameThatItIsGiven) {
  const TemporaryFolder run;
  const auto publish = [&run](int64_t report, const std::string& name) {
    auto stage = Stage::create(run.path(), worker(1), report).ValueOrDie();
    return Store(run.path()).publish({{0, stage.finish().ValueOrDie()}}, {.report = report, .name = name});
  };
  EXPECT_EQ(publish(5, "epoch_1")->path, run / "epoch_1");
  EXPECT_EQ(publish(3, "")->name, "checkpoint_000003");
  EXPECT_TRUE(publish(4, "epoch_1").status().IsAlreadyExists()) << "of an earlier report than what is there";
  write_file(run / "data/file", "the user's");
  EXPECT_TRUE(publish(6, "data").status().IsAlreadyExists());
  EXPECT_EQ(storage::read_file(run / "data/file").ValueOrDie(), "the user's");
  // A copy is none of the run's checkpoints.
  std::filesystem::copy(run / "epoch_1", run / "copy");
  const auto list = Store(run.path()).list().ValueOrDie();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].report, 3);
  EXPECT_EQ(list[1].name, "epoch_1");
}

// Publishes a checkpoint `name` with a file of that content.
arrow::Result<Published> publish_named(const std::string& run, int64_t report, const std::string& name,
                                       const std::string& content) {
  const TemporaryFolder user;
  write_file(user / "of_" + std::to_string(report), content);
  auto stage = Stage::create(run, worker(1), report).ValueOrDie();
  EXPECT_TRUE(stage.copy_folder(user.path()).ok());
  return Store(run).publish({{0, stage.finish().ValueOrDie()}}, {.report = report, .name = name});
}

TEST(Store, ANameThatIsGivenAgainMeansTheLaterReport) {
  const TemporaryFolder run;
  ASSERT_TRUE(publish_named(run.path(), 1, "latest", "first").ok());
  const auto again = publish_named(run.path(), 2, "latest", "second").ValueOrDie();
  EXPECT_EQ(again.path, run / "latest");
  EXPECT_EQ(again.warning, "");
  EXPECT_THAT(names_in(run / "latest"), ElementsAre("of_2", "paceline_manifest.json"));
  EXPECT_TRUE(verify(run / "latest").ok());
  const auto list = Store(run.path()).list().ValueOrDie();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].report, 2);
  EXPECT_TRUE(storage::files_below(run / ".staging").ValueOrDie().empty());
}

TEST(Store, RefusesAPartThatIsMissingOrDamaged) {
  const TemporaryFolder run;
  auto stage = Stage::create(run.path(), worker(1), 1).ValueOrDie();
  const std::string staged = stage.finish().ValueOrDie();
  EXPECT_TRUE(Store(run.path()).publish({{0, staged}, {1, ".staging/none"}}, {.report = 1}).status().IsIOError());
  write_file(run.path() + "/" + staged + ".json", "{");
  EXPECT_THAT(Store(run.path()).publish({{3, staged}}, {.report = 1}).status().message(), HasSubstr("rank 3"));
  EXPECT_THAT(Store(run.path()).list().ValueOrDie(), IsEmpty());
}

TEST(Stage, RefusesTensorsThatAreNotWhatTheySay) {
  const TemporaryFolder run;
  auto stage = Stage::create(run.path(), worker(1), 1).ValueOrDie();
  const auto values = counting(3);
  const auto short_one = stage.write_tensors(
      "m", {{.name = "w", .dtype = "F32", .global_shape = {4}, .start = {0}, .shape = {4}, .bytes = bytes(values)}});
  EXPECT_THAT(short_one.message(), HasSubstr("\"w\" has 12 bytes; wanted 16"));
  const TensorBytes good{
      .name = "w", .dtype = "F32", .global_shape = {3}, .start = {0}, .shape = {3}, .bytes = bytes(values)};
  ASSERT_TRUE(stage.write_tensors("m", {good}).ok());
  EXPECT_TRUE(stage.write_tensors("other", {good}).IsInvalid());
}

// Boxes of a tensor written by several ranks come back as the whole tensor, however they are cut.
TEST(TensorReader, PutsSlicesTogether) {
  std::mt19937 random(3);
  for (int round = 0; round < 12; ++round) {
    const TemporaryFolder run;
    const Shape shape = {static_cast<int64_t>(2 + random() % 4), static_cast<int64_t>(2 + random() % 4),
                         static_cast<int64_t>(2 + random() % 4)};
    const auto whole = counting(static_cast<size_t>(*element_count(shape)));
    const size_t dim = random() % 3;
    const auto cut = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(shape[dim] - 1));
    std::vector<StagedPart> parts;
    for (int64_t rank = 0; rank < 2; ++rank) {
      Shape start = {0, 0, 0};
      Shape box = shape;
      box[dim] = rank == 0 ? cut : shape[dim] - cut;
      start[dim] = rank == 0 ? 0 : cut;
      std::vector<float> values;
      for (int64_t i = start[0]; i < start[0] + box[0]; ++i) {
        for (int64_t j = start[1]; j < start[1] + box[1]; ++j) {
          for (int64_t k = start[2]; k < start[2] + box[2]; ++k) {
            values.push_back(whole[static_cast<size_t>((i * shape[1] + j) * shape[2] + k)]);
          }
        }
      }
      auto stage = Stage::create(run.path(), worker(rank + 1), 1).ValueOrDie();
      ASSERT_TRUE(stage
                      .write_tensors("rank_" + std::to_string(rank) + ".safetensors", {{.name = "w",
                                                                                        .dtype = "F32",
                                                                                        .global_shape = shape,
                                                                                        .start = start,
                                                                                        .shape = box,
                                                                                        .bytes = bytes(values)}})
                      .ok());
      parts.push_back({.rank = rank, .staged = stage.finish().ValueOrDie()});
    }
    const auto checkpoint = Store(run.path()).publish(parts, {.report = 1}).ValueOrDie();
    const auto reader = TensorReader::open(checkpoint.path).ValueOrDie();
    std::vector<float> read(whole.size());
    ASSERT_TRUE(reader.read("w", std::as_writable_bytes(std::span(read))).ok());
    EXPECT_EQ(read, whole);
  }
}

// One checkpoint with two tensors and a plain file, for damage.
struct Damaged {
  TemporaryFolder run;
  TemporaryFolder user;
  std::string path;
  std::string tensors;

  Damaged() {
    write_file(user / "notes.txt", "some notes");
    const auto values = counting(1000);
    auto stage = Stage::create(run.path(), worker(1), 1).ValueOrDie();
    EXPECT_TRUE(stage.copy_folder(user.path()).ok());
    const TensorBytes first{
        .name = "a", .dtype = "F32", .global_shape = {1000}, .start = {0}, .shape = {1000}, .bytes = bytes(values)};
    TensorBytes second = first;
    second.name = "b";
    EXPECT_TRUE(stage.write_tensors("model.safetensors", {first, second}).ok());
    stage.add_value("optimizer", {{"step", 3}});
    path = Store(run.path()).publish({{0, stage.finish().ValueOrDie()}}, {.report = 1})->path.text();
    tensors = path + "/model.safetensors";
  }

  arrow::Status read(const std::string& name) const {
    ARROW_ASSIGN_OR_RAISE(const auto reader, TensorReader::open(path));
    std::vector<float> target(1000);
    return reader.read(name, std::as_writable_bytes(std::span(target)));
  }
};

TEST(Damage, AFlippedBitIsRefusedWhereItMatters) {
  const Damaged checkpoint;
  ASSERT_TRUE(verify(checkpoint.path).ok());
  ASSERT_TRUE(checkpoint.read("a").ok());
  std::string content = storage::read_file(checkpoint.tensors).ValueOrDie();
  content.back() = static_cast<char>(content.back() ^ 1);  // in "b"
  write_file(checkpoint.tensors, content);
  EXPECT_TRUE(checkpoint.read("a").ok());
  EXPECT_THAT(checkpoint.read("b").message(), AllOf(HasSubstr("tensor \"b\""), HasSubstr(checkpoint.tensors),
                                                    HasSubstr("damaged"), HasSubstr("wanted")));
  const auto status = verify(checkpoint.path);
  EXPECT_TRUE(status.IsIOError());
  EXPECT_THAT(status.message(), AllOf(HasSubstr(checkpoint.tensors), HasSubstr("checksum is"), HasSubstr("wanted")));
}

TEST(Damage, ATruncatedOrMissingFileIsRefusedAtOnce) {
  const Damaged checkpoint;
  const auto size = std::filesystem::file_size(checkpoint.tensors);
  std::filesystem::resize_file(checkpoint.tensors, size - 1);
  for (const auto& status : {verify(checkpoint.path), checkpoint.read("a")}) {
    EXPECT_THAT(status.message(), HasSubstr(checkpoint.tensors + " has " + std::to_string(size - 1) +
                                            " bytes; wanted " + std::to_string(size)));
  }
  std::filesystem::remove(checkpoint.tensors);
  for (const auto& status : {verify(checkpoint.path), checkpoint.read("a")}) {
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr(checkpoint.tensors + " is missing"), HasSubstr("wanted " + std::to_string(size))));
  }
}

TEST(Damage, AManifestWithAFlippedBitIsNoCheckpoint) {
  const Damaged checkpoint;
  std::string content = storage::read_file(checkpoint.path + "/paceline_manifest.json").ValueOrDie();
  content[content.find("\"step\":3") + 7] = '4';
  write_file(checkpoint.path + "/paceline_manifest.json", content);
  EXPECT_THAT(verify(checkpoint.path).message(), AllOf(HasSubstr("paceline_manifest.json"), HasSubstr("damaged")));
  EXPECT_THAT(Store(checkpoint.run.path()).list().ValueOrDie(), IsEmpty());
}

TEST(TensorReader, NamesWhatIsAskedForInVain) {
  const Damaged checkpoint;
  EXPECT_THAT(checkpoint.read("c").message(), HasSubstr("no tensor \"c\""));
  std::vector<std::byte> small(4);
  const auto reader = TensorReader::open(checkpoint.path).ValueOrDie();
  EXPECT_THAT(reader.read("a", small).message(), AllOf(HasSubstr("4000 bytes"), HasSubstr("has 4")));
  EXPECT_THAT(TensorReader::open(checkpoint.run.path()).status().message(), HasSubstr("is not a checkpoint"));
}

TEST(Stage, TakesTensorsOverFromACheckpointThatIsReportedAgain) {
  const Damaged original;
  const TemporaryFolder copy;
  CheckpointAccess::published(original.path).to_directory(copy / "c");
  const TemporaryFolder run;
  const Published again = publish_folders(run.path(), {copy / "c", original.path}, 1);
  std::vector<float> target(1000);
  const auto reader = TensorReader::open(again.path).ValueOrDie();
  ASSERT_TRUE(reader.read("b", std::as_writable_bytes(std::span(target))).ok());
  EXPECT_EQ(target, counting(1000));
  EXPECT_EQ(reader.manifest().values, Json({{"optimizer", {{"step", 3}}}}));

  write_file(copy / "c/model.safetensors", "changed by the user");
  EXPECT_TRUE(read_manifest(publish_folders(run.path(), {copy / "c"}, 2).path)->tensors.empty());
}

TEST(Stage, RefusesAStateThatNobodyCouldReadAgain) {
  const TemporaryFolder run;
  const auto published = [&](int levels) {
    Json value = 0;
    for (int level = 0; level < levels; ++level) value = Json::array({std::move(value)});
    auto stage = Stage::create(run.path(), worker(1), levels).ValueOrDie();
    stage.add_value("own", std::move(value));
    const auto staged = stage.finish();
    if (!staged.ok()) return staged.status();
    return Store(run.path()).publish({{0, *staged}}, {.report = levels}).status();
  };
  EXPECT_TRUE(published(kDeepestJson - 2).ok());
  EXPECT_THAT(published(kDeepestJson - 1).message(), HasSubstr("the state of \"own\" is nested too deeply"));
}

TEST(Stage, RefusesAFileWithTheManifestsName) {
  const TemporaryFolder run;
  const TemporaryFolder user;
  write_file(user / "paceline_manifest.json", R"({"name": "an application"})");
  auto stage = Stage::create(run.path(), worker(1), 1).ValueOrDie();
  EXPECT_THAT(stage.copy_folder(user.path()).message(), HasSubstr("give the file another name"));
}

TEST(Stage, KeepsAFileOfTheUsersThatIsCalledAsTheFirstVersionsManifests) {
  const TemporaryFolder run;
  const TemporaryFolder user;
  for (const std::string text : {R"({"name": "an application", "version": 3})", "no JSON"}) {
    write_file(user / "manifest.json", text);
    const Published published = publish_folders(run.path(), {user.path()}, std::ssize(text));
    EXPECT_EQ(storage::read_file(published.path + "/manifest.json").ValueOrDie(), text);
    EXPECT_TRUE(read_manifest(published.path)->files.contains("manifest.json"));
    EXPECT_TRUE(verify(published.path).ok());
    // Handed over again it is still the user's.
    const Published again = publish_folders(run.path(), {published.path.text()}, 100 + std::ssize(text));
    EXPECT_EQ(storage::read_file(again.path + "/manifest.json").ValueOrDie(), text);
  }
  EXPECT_EQ(Store(run.path()).list()->size(), 4u);
}

// As Paceline wrote it when manifests had that name.
TEST(Store, ReadsCheckpointsOfTheFirstVersion) {
  const TemporaryFolder run;
  const TemporaryFolder user;
  write_file(user / "model.bin", "weights");
  const Published published = publish_folders(run.path(), {user.path()}, 1);
  Manifest manifest = read_manifest(published.path).ValueOrDie();
  manifest.version = 1;
  manifest.values["item"] = 7;
  std::filesystem::remove(published.path + "/paceline_manifest.json");
  write_file(published.path + "/manifest.json", encode_manifest(manifest));
  EXPECT_EQ(Store(run.path()).list()->size(), 1u);
  EXPECT_EQ(read_manifest(published.path).ValueOrDie(), manifest);
  EXPECT_TRUE(verify(published.path).ok());
  // Handed over again it becomes one of today's, with what its manifest had.
  const Published again = publish_folders(run.path(), {published.path.text()}, 2);
  EXPECT_THAT(names_in(again.path.text()), ElementsAre("model.bin", "paceline_manifest.json"));
  EXPECT_EQ(read_manifest(again.path)->values, Json::object({{"item", 7}}));
  write_file(published.path + "/manifest.json", "damaged");
  EXPECT_EQ(Store(run.path()).list()->size(), 1u);
  EXPECT_THAT(read_manifest(published.path).status().message(), HasSubstr("its manifest.json is none"));
}

TEST(Stage, SeveralWorkersStageTheSameReportSideBySide) {
  const TemporaryFolder run;
  const auto first = Stage::create(run.path(), worker(1), 1).ValueOrDie();
  const auto second = Stage::create(run.path(), worker(2), 1).ValueOrDie();
  EXPECT_NE(first.folder(), second.folder());
  write_file(first.folder() + "/left", "over");
  EXPECT_THAT(names_in(Stage::create(run.path(), worker(1), 1)->folder()), IsEmpty());
}

struct StoreGateTest : ::testing::Test {
  // Of a driver's worker, relative to the run.
  std::string staged(int64_t report, const std::string& driver) {
    auto stage = Stage::create(run_.path(), worker(1), report, driver).ValueOrDie();
    testing::write_file(files_ / "file", driver);
    EXPECT_TRUE(stage.copy_folder(files_.path()).ok());
    return stage.finish().ValueOrDie();
  }
  TemporaryFolder run_;
  TemporaryFolder files_;
};

// Asked right before the rename and the deletion: the run may be another driver's since the job was queued.
TEST_F(StoreGateTest, ARunThatIsAnothersByNowIsNotChanged) {
  ASSERT_TRUE(Store(run_.path()).publish({{0, staged(1, "first")}}, {.report = 1}).ok());
  Store store(run_.path());
  bool allowed = true;
  const auto gate = [&] { return allowed ? arrow::Status::OK() : arrow::Status::Cancelled("another's"); };
  store.belong_to("first", gate);
  ASSERT_TRUE(store.publish({{0, staged(2, "first")}}, {.report = 2}).ok());
  allowed = false;
  EXPECT_TRUE(store.publish({{0, staged(3, "first")}}, {.report = 3}).status().IsCancelled());
  EXPECT_TRUE(store.remove("checkpoint_000001").IsCancelled());
  EXPECT_TRUE(store.collect_leftovers().IsCancelled());
  EXPECT_EQ(Store(run_.path()).list()->size(), 2u);
}

TEST_F(StoreGateTest, ADriversStagesAreItsOwn) {
  const std::string first = staged(1, "first");
  const std::string second = staged(1, "second");
  EXPECT_NE(first, second);
  EXPECT_EQ(first.rfind(".staging/first/", 0), 0u) << first;
  Store store(run_.path());
  store.belong_to("first", nullptr);
  ASSERT_TRUE(store.discard_stages({1}, {1}).ok());
  EXPECT_FALSE(std::filesystem::exists(run_ / first));
  EXPECT_TRUE(std::filesystem::exists(run_ / second));
}

}  // namespace
}  // namespace paceline::checkpoint
