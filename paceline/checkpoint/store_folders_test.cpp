// Which folders are checkpoints, and what happens to those that are not.
#include <gmock/gmock.h>

#include <filesystem>

#include "paceline/checkpoint/checkpoint_fixture.h"
#include "paceline/checkpoint/stage.h"
#include "paceline/checkpoint/store.h"
#include "paceline/storage/local/durable.h"
#include "paceline/storage/memory_storage.h"
#include "paceline/testing/faulty_storage.h"
#include "paceline/testing/temporary_folder.h"

namespace paceline::checkpoint {
namespace {

using storage::MemoryStorage;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryFolder;
using testing::write_file;

struct StoreFolders : ::testing::Test {
  TemporaryFolder run;
  TemporaryFolder user;
  std::shared_ptr<MemoryStorage> objects = std::make_shared<MemoryStorage>();

  StagedPart stage(int64_t report) {
    write_file(user / "model", "weights of " + std::to_string(report));
    auto stage = Stage::create(run.path(), worker(1), report).ValueOrDie();
    EXPECT_TRUE(stage.copy_folder(user.path()).ok());
    return {.rank = 0, .staged = stage.finish().ValueOrDie()};
  }
  arrow::Result<Published> publish(Store store, int64_t report, const std::string& name = "") {
    Manifest about{.report = report};
    about.name = name;
    return store.publish({stage(report)}, about);
  }
  Store local() const { return Store(run.path()); }
  Store remote(const std::string& ending = "") const { return Store(run.path(), objects, ending); }

  static std::vector<std::string> names(const Store& store) {
    std::vector<std::string> names;
    for (const auto& one : store.list().ValueOrDie()) names.push_back(one.name);
    return names;
  }
  void rewrite_manifest(const std::string& folder, const std::string& from, const std::string& to) {
    const std::string path = run / (folder + "/paceline_manifest.json");
    std::string text = storage::read_file(path).ValueOrDie();
    text.replace(text.find(from), from.size(), to);
    write_file(path, text);
  }
};

TEST_F(StoreFolders, AManifestOfALaterVersionIsNotAbsence) {
  ASSERT_TRUE(publish(local(), 1).ok());
  rewrite_manifest("checkpoint_000001", "\"version\":2", "\"version\":9");
  const arrow::Status listed = local().list().status();
  EXPECT_TRUE(listed.IsNotImplemented()) << listed.ToString();
  EXPECT_THAT(listed.message(),
              AllOf(HasSubstr("checkpoint_000001/paceline_manifest.json"), HasSubstr("use a later one")));
  EXPECT_FALSE(publish(local(), 1).ok());
  EXPECT_TRUE(std::filesystem::exists(run / "checkpoint_000001/model")) << "not deleted to make way";
}

TEST_F(StoreFolders, AnObjectStoreHasManifestsOfTheFirstVersionAndFilesOfTheUsersThatAreCalledSo) {
  Manifest first{.version = 1, .report = 7};
  ASSERT_TRUE(objects->write("checkpoint_000007/manifest.json", encode_manifest(first)).ok());
  ASSERT_TRUE(objects->write("checkpoint_000008/manifest.json", R"({"name": "an application"})").ok());
  EXPECT_THAT(names(remote()), ElementsAre("checkpoint_000007"));
  EXPECT_TRUE(publish(remote(), 7).status().IsAlreadyExists());
  ASSERT_TRUE(remote().collect_leftovers().ok());  // a publication that was interrupted
  EXPECT_TRUE(objects->list("checkpoint_000008")->empty());

  write_file(user / "manifest.json", "the user's");
  ASSERT_TRUE(publish(remote(), 9).ok());
  EXPECT_EQ(storage::read_whole(*objects, "checkpoint_000009/manifest.json").ValueOrDie(), "the user's");
  EXPECT_THAT(names(remote()), ElementsAre("checkpoint_000007", "checkpoint_000009"));
  for (const auto& name : names(remote())) EXPECT_TRUE(remote().remove(name).ok());
  EXPECT_TRUE(objects->list("")->empty());
}

TEST_F(StoreFolders, AManifestThatCannotBeReadIsNotAbsence) {
  ASSERT_TRUE(publish(local(), 1).ok());
  std::filesystem::remove(run / "checkpoint_000001/paceline_manifest.json");
  std::filesystem::create_directory(run / "checkpoint_000001/paceline_manifest.json");  // reading it fails
  EXPECT_TRUE(local().list().status().IsIOError());
  EXPECT_FALSE(publish(local(), 1).ok());
  EXPECT_TRUE(std::filesystem::exists(run / "checkpoint_000001/model"));

  ASSERT_TRUE(publish(remote(), 1).ok());
  const auto unreadable =
      std::make_shared<testing::GuardedStorage>(objects, [](const std::string& call, const std::string&, int64_t) {
        return call == "open" ? arrow::Status::IOError("reset by peer") : arrow::Status::OK();
      });
  EXPECT_THAT(Store(run.path(), unreadable).list().status().message(), HasSubstr("reset by peer"));
  EXPECT_FALSE(publish(Store(run.path(), unreadable), 1).ok());
  EXPECT_THAT(names(remote()), ElementsAre("checkpoint_000001"));
}

TEST_F(StoreFolders, ACopyIsNoCheckpointAndStays) {
  ASSERT_TRUE(publish(local(), 1).ok());
  for (const char* copy : {"checkpoint_000099", "mine"}) {
    std::filesystem::copy(run / "checkpoint_000001", run / copy, std::filesystem::copy_options::recursive);
  }
  EXPECT_THAT(names(local()), ElementsAre("checkpoint_000001"));
  const arrow::Status refused = publish(local(), 99).status();
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("a copy of the checkpoint checkpoint_000001"), HasSubstr("move it")));
  EXPECT_FALSE(publish(local(), 100, "mine").ok());
  EXPECT_TRUE(verify(run / "checkpoint_000099").ok());
  EXPECT_TRUE(verify(run / "mine").ok());
}

// What dies with a driver in a folder that machines share is removed with its part of `.staging`.
TEST_F(StoreFolders, WhatADriverPublishesAndDeletesIsInItsOwnPartOfStaging) {
  Store store = local();
  int asked = 0;
  store.belong_to("mine", [&] {
    ++asked;
    for (const std::string& name : testing::names_in(run / ".staging")) {
      EXPECT_TRUE(name == "mine" || name == "attempt_1") << name;
    }
    return arrow::Status::OK();
  });
  ASSERT_TRUE(publish(store, 1).ok());
  ASSERT_TRUE(store.remove("checkpoint_000001").ok());
  EXPECT_GE(asked, 3);
}

TEST_F(StoreFolders, ANameThatHoldsSomethingElseIsRefusedInAnObjectStoreToo) {
  ASSERT_TRUE(objects->write("data/train.csv", "rows").ok());
  const arrow::Status refused = publish(remote(), 1, "data").status();
  EXPECT_TRUE(refused.IsAlreadyExists()) << refused.ToString();
  EXPECT_EQ(storage::read_whole(*objects, "data/train.csv").ValueOrDie(), "rows");
  ASSERT_TRUE(remote().collect_leftovers().ok());
  EXPECT_EQ(storage::read_whole(*objects, "data/train.csv").ValueOrDie(), "rows");
}

// Objects cannot be exchanged: until the earlier is deleted both are there.
TEST_F(StoreFolders, ANameThatIsGivenAgainIsThatOfTheLaterReportInAnObjectStore) {
  ASSERT_TRUE(publish(remote("_g2"), 1, "best").ok());
  const Published again = publish(remote("_g2"), 2, "best").ValueOrDie();
  EXPECT_EQ(again.name, "best_g2.report_2");
  EXPECT_EQ(given_name(again), "best_g2");
  EXPECT_THAT(names(remote()), ElementsAre("best_g2", "best_g2.report_2"));
  ASSERT_TRUE(remote().remove("best_g2").ok());
  EXPECT_EQ(publish(remote("_g2"), 3, "best").ValueOrDie().name, "best_g2");
}

TEST_F(StoreFolders, ANameOfAnInterruptedPublicationCanBeUsedAgain) {
  const auto interrupted =
      std::make_shared<testing::GuardedStorage>(objects, [](const std::string&, const std::string& name, int64_t) {
        return name.ends_with("paceline_manifest.json") ? arrow::Status::Cancelled("killed") : arrow::Status::OK();
      });
  ASSERT_FALSE(publish(Store(run.path(), interrupted), 1, "best").ok());
  ASSERT_FALSE(objects->list("best").ValueOrDie().empty());
  ASSERT_TRUE(publish(remote(), 2, "best").ok());
  EXPECT_THAT(names(remote()), ElementsAre("best"));
  EXPECT_EQ(objects->list("best").ValueOrDie().size(), 2u) << "model and manifest, nothing else";

  ASSERT_FALSE(publish(Store(run.path(), interrupted), 3, "other").ok());
  ASSERT_TRUE(remote().collect_leftovers().ok());
  EXPECT_TRUE(objects->list("other").ValueOrDie().empty());
}

TEST_F(StoreFolders, AManifestWhoseAnswerWasLostIsPublished) {
  struct LosesAnswers final : testing::GuardedStorage {
    using GuardedStorage::GuardedStorage;
    arrow::Status write(const std::string& name, std::string_view content) override {
      ARROW_RETURN_NOT_OK(GuardedStorage::write(name, content));
      return name.ends_with("paceline_manifest.json") ? arrow::Status::IOError("timed out") : arrow::Status::OK();
    }
  };
  const auto loses =
      std::make_shared<LosesAnswers>(objects, [](const auto&, const auto&, int64_t) { return arrow::Status::OK(); });
  EXPECT_TRUE(publish(Store(run.path(), loses), 1).ok());
}

TEST_F(StoreFolders, NamesOfReportsAndOfTheRunAreNoUsers) {
  for (const char* name : {"checkpoint_000007", "checkpoint_000007_g2", "journal.jsonl", "journal.jsonl.damaged"}) {
    EXPECT_TRUE(check_folder_name(name).IsInvalid()) << name;
  }
  for (const char* name : {"best", "best_g2", "checkpoint_best"}) EXPECT_TRUE(check_folder_name(name).ok()) << name;
}

// What a driver that was stopped in an upload sends when it goes on has names that its successor does not use.
TEST_F(StoreFolders, ASuccessorsFilesAreNotReplacedByLateOnes) {
  const Published published = publish(remote("_g2"), 7).ValueOrDie();
  EXPECT_EQ(published.name, "checkpoint_000007_g2");
  ASSERT_TRUE(objects->write("checkpoint_000007/model", "late").ok());
  // Its manifest comes when the successor has deleted the files that came before.
  Manifest late{.report = 7};
  late.files["model"] = {.size = 12, .checksum = "gone"};
  ASSERT_TRUE(objects->write("checkpoint_000007/paceline_manifest.json", encode_manifest(late)).ok());
  EXPECT_THAT(names(remote()), ElementsAre("checkpoint_000007_g2"));
  late.files["model"].size = 4;  // whole, as far as one can see
  ASSERT_TRUE(objects->write("checkpoint_000007/paceline_manifest.json", encode_manifest(late)).ok());
  EXPECT_THAT(names(remote()), ElementsAre("checkpoint_000007_g2"));
  ASSERT_TRUE(remote("_g2").collect_leftovers().ok());
  EXPECT_TRUE(objects->list("checkpoint_000007").ValueOrDie().empty());
  EXPECT_EQ(storage::read_whole(*objects, "checkpoint_000007_g2/model").ValueOrDie(), "weights of 7");
  EXPECT_EQ(publish(remote("_g2"), 8, "best").ValueOrDie().name, "best_g2");
  ASSERT_TRUE(remote("_g2").remove("checkpoint_000007_g2").ok());
  EXPECT_THAT(names(remote()), ElementsAre("best_g2"));
}

}  // namespace
}  // namespace paceline::checkpoint
