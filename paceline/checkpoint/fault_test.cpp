// Kills at every step from a worker's files to a published checkpoint, and the exchange with Python's safetensors.
#include <gmock/gmock.h>

#include <filesystem>
#include <numeric>

#include "paceline/checkpoint/format/safetensors.h"
#include "paceline/checkpoint/publish_fixture.h"
#include "paceline/checkpoint/stage.h"
#include "paceline/checkpoint/store.h"
#include "paceline/checkpoint/tensor_reader.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/local/local_storage.h"
#include "paceline/testing/child_program.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::checkpoint {
namespace {

using testing::run_child;
using testing::TemporaryFolder;
using testing::was_killed;
using testing::write_file;

int publish_staged_in_child(const std::string& folder) {
  const std::vector<StagedPart> parts = {{0, stage_of(worker(7), 2)}};
  return Store(folder + "/run").publish(parts, {.report = 2}).ok() ? 0 : 3;
}

int remove_in_child(const std::string& folder) {
  return Store(folder + "/run").remove("checkpoint_000001").ok() ? 0 : 1;
}

// The same with a store of objects, for which another local folder stands.
std::shared_ptr<storage::Storage> objects_in(const std::string& folder) {
  return std::make_shared<storage::LocalStorage>(folder + "/objects");
}

int publish_objects_in_child(const std::string& folder) {
  std::vector<StagedPart> parts;
  for (const int64_t rank : {0, 1}) {
    std::filesystem::create_directories(folder + "/run");
    auto stage = Stage::create(folder + "/run", worker(rank + 1), 2).ValueOrDie();
    if (!stage.copy_folder(folder + "/user").ok()) return 1;
    parts.push_back({.rank = rank, .staged = stage.finish().ValueOrDie()});
  }
  return Store(folder + "/run", objects_in(folder)).publish(parts, {.report = 2}).ok() ? 0 : 3;
}

int remove_objects_in_child(const std::string& folder) {
  return Store(folder + "/run", objects_in(folder)).remove("checkpoint_000001").ok() ? 0 : 1;
}

// Publishes report `report` under a name that an earlier one may have.
arrow::Result<Published> publish_latest(const std::string& folder, int64_t report) {
  std::filesystem::create_directories(folder + "/run");
  auto stage = Stage::create(folder + "/run", worker(report), report).ValueOrDie();
  ARROW_RETURN_NOT_OK(stage.copy_folder(folder + "/user"));
  ARROW_ASSIGN_OR_RAISE(const std::string staged, stage.finish());
  return Store(folder + "/run").publish({{0, staged}}, {.report = report, .name = "latest"});
}

int publish_latest_in_child(const std::string& folder) {
  return publish_latest(folder, 2).ok() ? 0 : 3;
}

// Its driver's lock is gone with the driver, or NFS has forgotten it; a successor trains the same report again.
TEST(PublishFaults, APublisherThatHungMeetsItsSuccessorNowhere) {
  for (const char* point : {"publish.before_merge", "publish.before_manifest", "write_atomically.before_rename",
                            "publish.before_rename", "publish.before_removal"}) {
    SCOPED_TRACE(point);
    const TemporaryFolder folder;
    make_run(folder);
    std::filesystem::create_directory(folder / "run/checkpoint_000002");  // no checkpoint: makes way
    const pid_t hung = testing::start_child("publish", folder.path(), std::string(point) + "=stop");
    ASSERT_TRUE(WIFSTOPPED(testing::wait_for_child(hung, WUNTRACED)));

    ASSERT_TRUE(Store(folder / "run").collect_leftovers().ok());
    write_file(folder / "user/model", "the successor's");
    auto stage = Stage::create(folder / "run", worker(7), 2).ValueOrDie();
    ASSERT_TRUE(stage.copy_folder(folder / "user").ok());
    ASSERT_TRUE(stage.finish().ok());
    const pid_t successor = testing::start_child("publish_staged", folder.path(), "publish.before_rename=stop");
    ASSERT_TRUE(WIFSTOPPED(testing::wait_for_child(successor, WUNTRACED))) << "has its files together";
    ::kill(hung, SIGCONT);
    EXPECT_FALSE(testing::ended_well(testing::wait_for_child(hung))) << "it has published";
    ::kill(successor, SIGCONT);
    EXPECT_TRUE(testing::ended_well(testing::wait_for_child(successor)));

    const std::string path = folder / "run/checkpoint_000002";
    EXPECT_TRUE(verify(path).ok());
    EXPECT_EQ(storage::read_file(path + "/model").ValueOrDie(), "the successor's");
    EXPECT_EQ(reports_after_recovery(folder), (std::vector<int64_t>{1, 2}));
  }
}

// Between the look at a folder that is no checkpoint, and so makes way, and its deletion.
TEST(PublishFaults, APublisherThatHungDeletesNoCheckpoint) {
  const TemporaryFolder folder;
  make_run(folder);
  std::filesystem::create_directory(folder / "run/checkpoint_000002");
  const pid_t hung = testing::start_child("publish", folder.path(), "publish.before_removal=stop");
  ASSERT_TRUE(WIFSTOPPED(testing::wait_for_child(hung, WUNTRACED)));
  ASSERT_TRUE(Store(folder / "run").collect_leftovers().ok());
  EXPECT_TRUE(testing::ended_well(run_child("publish", folder.path(), "")));
  ::kill(hung, SIGCONT);
  EXPECT_FALSE(testing::ended_well(testing::wait_for_child(hung)));
  EXPECT_EQ(reports_after_recovery(folder), (std::vector<int64_t>{1, 2}));
}

TEST(PublishFaults, WhatFailsAfterItIsPublishedIsNoError) {
  const TemporaryFolder folder;
  make_run(folder);
  EXPECT_TRUE(testing::ended_well(run_child("publish", folder.path(), "publish.after_rename=error")));
  EXPECT_EQ(reports_after_recovery(folder), (std::vector<int64_t>{1, 2}));
}

TEST(PublishFaults, AKillLeavesTheOldStateOrTheNewOneWhole) {
  const std::map<std::string, bool> points = {{"file_writer.write", false},
                                              {"file_writer.write@3", false},
                                              {"stage.before_sync", false},
                                              {"stage.before_part", false},
                                              {"stage.before_part@2", false},
                                              {"publish.before_merge", false},
                                              {"publish.before_manifest", false},
                                              {"write_atomically.before_sync", false},
                                              {"write_atomically.before_rename", false},
                                              {"write_atomically.after_rename", false},
                                              {"publish.before_rename", false},
                                              {"publish.after_rename", true}};
  for (const auto& [point, is_published] : points) {
    const TemporaryFolder folder;
    make_run(folder);
    const size_t at = point.find('@');
    const std::string passage = at == std::string::npos ? "" : point.substr(at);
    ASSERT_TRUE(was_killed(run_child("publish", folder.path(), point.substr(0, at) + "=kill" + passage))) << point;
    const auto wanted = is_published ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1};
    EXPECT_EQ(reports_after_recovery(folder), wanted) << point;
    if (is_published) continue;
    EXPECT_EQ(publish_in_child(folder.path()), 0) << point;
    EXPECT_EQ(reports_after_recovery(folder), (std::vector<int64_t>{1, 2})) << point;
  }
}

TEST(PublishFaults, AKillWhileACheckpointIsReplacedLeavesOneOfThemWhole) {
  for (const auto& [point, wanted] : std::map<std::string, int64_t>{{"publish.before_manifest", 1},
                                                                    {"publish.before_rename", 1},
                                                                    {"publish.exchange", 1},
                                                                    {"publish.after_rename", 2}}) {
    const TemporaryFolder folder;
    write_file(folder / "user/model", "weights");
    ASSERT_TRUE(publish_latest(folder.path(), 1).ok());
    ASSERT_TRUE(was_killed(run_child("publish_latest", folder.path(), point + "=kill"))) << point;
    Store store(folder / "run");
    ASSERT_TRUE(store.collect_leftovers().ok());
    const auto list = store.list().ValueOrDie();
    ASSERT_EQ(list.size(), 1u) << point;
    EXPECT_EQ(list[0].report, wanted) << point;
    EXPECT_TRUE(verify(list[0].path).ok()) << point;
    EXPECT_EQ(testing::names_in(folder / "run"), std::vector<std::string>{"latest"});
  }
}

// As on NFS.
TEST(PublishFaults, WhereFoldersCannotBeExchangedTheLaterStandsBesideTheEarlier) {
  const TemporaryFolder folder;
  write_file(folder / "user/model", "weights");
  ASSERT_TRUE(publish_latest(folder.path(), 1).ok());
  ASSERT_TRUE(testing::ended_well(run_child("publish_latest", folder.path(), "publish.exchange=error")));
  const auto list = Store(folder / "run").list().ValueOrDie();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].name, "latest");
  EXPECT_EQ(list[1].name, "latest.report_2");
  EXPECT_EQ(given_name(list[1]), given_name(list[0])) << "so the controller knows which to delete";
  for (const auto& one : list) EXPECT_TRUE(verify(one.path).ok());
}

TEST(PublishFaults, AnErrorPublishesNothing) {
  for (const char* point :
       {"publish.before_merge", "publish.before_manifest", "write_atomically.before_sync", "publish.before_rename"}) {
    const TemporaryFolder folder;
    make_run(folder);
    EXPECT_EQ(WEXITSTATUS(run_child("publish", folder.path(), std::string(point) + "=error")), 3);
    EXPECT_EQ(reports_after_recovery(folder), std::vector<int64_t>{1});
  }
}

TEST(PublishFaults, AKillWhileDeletingLeavesTheCheckpointWholeOrGone) {
  for (const auto& [point, wanted] : std::map<std::string, std::vector<int64_t>>{
           {"move.before_rename", {1}}, {"move.after_rename", {}}, {"remove.after_rename", {}}}) {
    const TemporaryFolder folder;
    make_run(folder);
    ASSERT_TRUE(was_killed(run_child("remove", folder.path(), point + "=kill")));
    EXPECT_EQ(reports_after_recovery(folder), wanted) << point;
  }
}

void make_objects(const TemporaryFolder& folder) {
  write_file(folder / "user/model", std::string(200'000, 'm'));
  std::filesystem::create_directories(folder / "run");
  write_file(folder / "user/sub/file", "x");
  auto stage = Stage::create(folder / "run", worker(1), 1).ValueOrDie();
  ASSERT_TRUE(stage.copy_folder(folder / "user").ok());
  Store store(folder / "run", objects_in(folder.path()));
  ASSERT_TRUE(store.publish({{0, stage.finish().ValueOrDie()}}, {.report = 1}).ok());
}

// Every checkpoint that is listed is whole, and there are no objects but theirs.
std::vector<int64_t> reports_of_objects_after_recovery(const TemporaryFolder& folder) {
  const auto objects = objects_in(folder.path());
  Store store(folder / "run", objects);
  EXPECT_TRUE(store.collect_leftovers().ok());
  std::vector<int64_t> reports;
  size_t files = 0;
  for (const Published& checkpoint : store.list().ValueOrDie()) {
    EXPECT_TRUE(verify(checkpoint.path).ok());
    reports.push_back(checkpoint.report);
    files += read_manifest(checkpoint.path).ValueOrDie().files.size() + 1;
  }
  EXPECT_EQ(objects->list("").ValueOrDie().size(), files);
  EXPECT_TRUE(testing::names_in(folder / "run").empty());
  return reports;
}

TEST(ObjectFaults, AKillLeavesTheOldStateOrTheNewOneWhole) {
  const std::map<std::string, bool> points = {{"objects.before_upload=kill", false},
                                              {"objects.after_file=kill", false},
                                              {"objects.after_file=kill@2", false},
                                              {"objects.before_manifest=kill", false},
                                              {"objects.after_manifest=kill", true}};
  for (const auto& [point, is_published] : points) {
    const TemporaryFolder folder;
    make_objects(folder);
    ASSERT_TRUE(was_killed(run_child("publish_objects", folder.path(), point))) << point;
    const auto wanted = is_published ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1};
    EXPECT_EQ(reports_of_objects_after_recovery(folder), wanted) << point;
    if (is_published) continue;
    EXPECT_EQ(publish_objects_in_child(folder.path()), 0) << point;
    EXPECT_EQ(reports_of_objects_after_recovery(folder), (std::vector<int64_t>{1, 2})) << point;
  }
}

TEST(ObjectFaults, AKillWhileDeletingLeavesNoCheckpointAndNoObjects) {
  const TemporaryFolder folder;
  make_objects(folder);
  ASSERT_TRUE(was_killed(run_child("remove_objects", folder.path(), "objects.after_manifest_removed=kill")));
  EXPECT_TRUE(reports_of_objects_after_recovery(folder).empty());
}

// For safetensors_test.py: "F32" 2×3, "I64" scalar, "BOOL" 3, "BF16" 2 with known values.
int write_safetensors(const std::string& folder) {
  auto stage = Stage::create(folder, worker(1), 1).ValueOrDie();
  const std::vector<float> floats = {0, 1, 2, 3, 4, 5};
  const std::vector<int64_t> step = {1234567890123};
  const std::vector<uint8_t> mask = {1, 0, 1};
  const std::vector<uint16_t> brain = {0x3f80, 0xc000};  // 1 and -2
  const auto tensor = [](const std::string& name, const std::string& dtype, const Shape& shape, const auto& values) {
    return TensorBytes{name, dtype, shape, Shape(shape.size(), 0), shape, std::as_bytes(std::span(values))};
  };
  const std::vector<float> none;
  if (!stage
           .write_tensors("sample.safetensors",
                          {tensor("mask", "BOOL", {3}, mask), tensor("weight", "F32", {2, 3}, floats),
                           tensor("brain", "BF16", {2}, brain), tensor("step", "I64", {}, step),
                           tensor("empty", "F32", {0, 4}, none)})
           .ok()) {
    return 1;
  }
  std::filesystem::rename(stage.folder() + "/sample.safetensors", folder + "/sample.safetensors");
  return 0;
}

// What Python wrote must be what it says: every tensor "name" has the bytes 0, 1, 2, … from its own start.
int read_safetensors(const std::string& folder) {
  const std::string content = storage::read_file(folder + "/python.safetensors").ValueOrDie();
  const auto entries = decode_safetensors(content, static_cast<int64_t>(content.size()));
  if (!entries.ok()) return 1;
  for (const auto& entry : *entries) {
    for (int64_t at = 0; at < entry.size; ++at) {
      if (static_cast<uint8_t>(content[static_cast<size_t>(entry.offset + at)]) != at % 256) return 2;
    }
    std::printf("%s %s %s\n", entry.name.c_str(), entry.dtype.c_str(), to_string(entry.shape).c_str());
  }
  return 0;
}

}  // namespace
}  // namespace paceline::checkpoint

int main(int argc, char** argv) {
  using namespace paceline::checkpoint;
  paceline::testing::run_child_if_asked(argc, argv,
                                        {{"publish", publish_in_child},
                                         {"publish_staged", publish_staged_in_child},
                                         {"publish_latest", publish_latest_in_child},
                                         {"remove", remove_in_child},
                                         {"publish_objects", publish_objects_in_child},
                                         {"remove_objects", remove_objects_in_child},
                                         {"write_safetensors", write_safetensors},
                                         {"read_safetensors", read_safetensors}});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
