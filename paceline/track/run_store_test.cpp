#include "paceline/track/run_store.h"

#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "paceline/testing/temporary_folder.h"

namespace paceline::track {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

RunRecord record_of(const std::string& path, double created = 100.0) {
  RunRecord record;
  record.run = {.name = "mnist",
                .path = path,
                .state = "running",
                .since = created + 1,
                .created = created,
                .opened = created,
                .host = "here",
                .pid = 7,
                .attempt = 1,
                .world_size = 2,
                .journal_bytes = 50};
  record.attempts = {{1, 2, created, created + 5, "rank 1 threw"}};
  record.workers = {{1, {1, 1, 0, "local", 11, "training"}}, {2, {2, 1, 1, "local", 12, "training"}}};
  record.checkpoints = {{3, "best", {{"loss", 0.5}}, created + 2, CheckpointStatus::validated}};
  for (const int64_t report : {1, 2}) {
    add_metrics({.report = report, .time = created, .metrics = {{"loss", std::nan("")}, {"eval", {{"top1", 0.5}}}}},
                record);
  }
  record.events = {{1, created, "run_opened", {{"epoch", 1}}}, {2, created + 1, "joined", {{"worker", 1}}}};
  return record;
}

class RunStoreTest : public ::testing::Test {
 protected:
  RunStore open() { return RunStore::open(path_).ValueOrDie(); }
  void corrupt() { testing::write_file(path_, std::string(100'000, 'x')); }

  testing::TemporaryFolder folder_;
  std::string path_ = run_store_path(folder_ / "state");
};

TEST_F(RunStoreTest, GivesBackWhatWasPut) {
  RunStore store = open();
  RunRecord record = record_of("/runs/mnist");
  ASSERT_TRUE(store.put(record).ok());
  const RunRecord found = store.find("/runs/mnist").ValueOrDie().value();
  EXPECT_TRUE(std::isnan(found.metrics.at("loss").last.get<double>()));
  EXPECT_EQ(found.metrics.at("eval/top1"), record.metrics.at("eval/top1"));
  EXPECT_EQ(found.attempts, record.attempts);
  EXPECT_EQ(found.workers, record.workers);
  EXPECT_EQ(found.checkpoints, record.checkpoints);
  EXPECT_EQ(found.events, record.events);
  EXPECT_EQ(found.run.journal_bytes, 50);
  EXPECT_EQ(store.find("/runs/other").ValueOrDie(), std::nullopt);
  EXPECT_TRUE(store.check().ok());
}

TEST_F(RunStoreTest, LaterNewsTakeThePlaceOfEarlierOnes) {
  RunStore store = open();
  RunRecord record = record_of("/runs/mnist");
  ASSERT_TRUE(store.put(record).ok());
  record.run.state = "finished";
  record.run.journal_bytes = 90;
  record.checkpoints.clear();
  record.events = {{3, 105, "worker_finished", {}}};
  ASSERT_TRUE(store.put(record).ok());
  ASSERT_TRUE(store.put(record_of("/runs/mnist")).ok()) << "from one who had read less of the folder";
  const RunRecord found = store.find("/runs/mnist").ValueOrDie().value();
  EXPECT_EQ(found.run.state, "finished");
  EXPECT_THAT(found.checkpoints, IsEmpty());
  EXPECT_THAT(found.events, SizeIs(3)) << "events are added";
  EXPECT_THAT(store.list().ValueOrDie(), SizeIs(1));
}

TEST_F(RunStoreTest, ANewRunUnderAnOldPathStartsAfresh) {
  RunStore store = open();
  RunRecord old = record_of("/runs/mnist");
  old.run.journal_bytes = 1'000'000;
  ASSERT_TRUE(store.put(old).ok());
  RunRecord fresh;
  fresh.run = {.name = "mnist", .path = "/runs/mnist", .state = "initializing", .created = 200, .opened = 200};
  ASSERT_TRUE(store.put(fresh).ok());
  EXPECT_EQ(store.find("/runs/mnist").ValueOrDie().value(), fresh);
}

TEST_F(RunStoreTest, KeepsTheLatestEvents) {
  RunStore store = open();
  RunRecord record = record_of("/runs/mnist");
  for (int64_t line = 3; line <= 1200; ++line) record.events.push_back({line, 0, "timer", {}});
  ASSERT_TRUE(store.put(record).ok());
  const RunRecord found = store.find("/runs/mnist").ValueOrDie().value();
  EXPECT_THAT(found.events, SizeIs(kMostEvents));
  EXPECT_EQ(found.events.back().sequence, 1200);
}

TEST_F(RunStoreTest, ListsTheLastOpenedFirstAndForgets) {
  RunStore store = open();
  for (const auto& [path, created] : std::map<std::string, double>{{"/a", 3}, {"/b", 5}, {"/c", 4}}) {
    ASSERT_TRUE(store.put(record_of(path, created)).ok());
  }
  ASSERT_TRUE(store.remove("/c").ok());
  ASSERT_TRUE(store.remove("/c").ok());
  std::vector<std::string> paths;
  for (const RunRow& run : store.list().ValueOrDie()) paths.push_back(run.path);
  EXPECT_THAT(paths, ElementsAre("/b", "/a"));
  EXPECT_EQ(store.names().ValueOrDie()[0].name, "mnist");
}

TEST_F(RunStoreTest, AVisitThatStopsHalfWayLeavesNothingBehind) {
  RunStore store = open();
  for (const double created : {1.0, 2.0, 3.0}) {
    ASSERT_TRUE(store.put(record_of("/" + std::to_string(static_cast<int>(created)), created)).ok());
  }
  std::vector<std::string> paths;
  const arrow::Status visited = store.visit(RunStore::Metrics::text, [&](const RunRow& run, const std::string& text) {
    paths.push_back(run.path);
    EXPECT_EQ(text, "eval/top1 0.5, loss nan");
    return paths.size() < 2;
  });
  ASSERT_TRUE(visited.ok()) << visited.ToString();
  EXPECT_THAT(paths, ElementsAre("/3", "/2"));
  EXPECT_TRUE(store.put(record_of("/4", 4)).ok()) << "nothing is locked";
  EXPECT_THAT(store.list().ValueOrDie(), SizeIs(4));
}

TEST_F(RunStoreTest, TakesAnyNameThatAFolderCanHave) {
  RunStore store = open();
  for (const std::string path : {"/with space/and\nnewline", "/\xff\xfe not UTF-8", "/quote's \"and\" ; --"}) {
    ASSERT_TRUE(store.put(record_of(path)).ok());
    EXPECT_EQ(store.find(path).ValueOrDie().value().run.path, path);
  }
}

TEST_F(RunStoreTest, ManyWritersAtOnceLoseNothing) {
  constexpr int kWriters = 4, kRuns = 20;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([this, writer] {
      RunStore store = open();  // making it is a race too
      for (int run = 0; run < kRuns; ++run) {
        const auto put = store.put(record_of("/" + std::to_string(writer) + "/" + std::to_string(run)));
        EXPECT_TRUE(put.ok()) << put;
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_THAT(open().list().ValueOrDie(), SizeIs(kWriters * kRuns));
}

TEST_F(RunStoreTest, AWriterWaitsForALockAndAReaderDoesNot) {
  ASSERT_TRUE(open().put(record_of("/a")).ok());
  sqlite3* other = nullptr;
  ASSERT_EQ(::sqlite3_open(path_.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(::sqlite3_exec(other, "BEGIN IMMEDIATE; DELETE FROM runs", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_THAT(RunStore::open_for_reading(path_).ValueOrDie().list().ValueOrDie(), SizeIs(1));
  auto store = RunStore::open(path_, /*patience_ms=*/1).ValueOrDie();
  const arrow::Status locked = store.put(record_of("/b"));
  EXPECT_TRUE(locked.IsIOError());
  EXPECT_THAT(locked.message(), AllOf(HasSubstr("runs.sqlite"), HasSubstr("locked")));
  ::sqlite3_close(other);  // rolls back
  EXPECT_TRUE(store.put(record_of("/b")).ok());
}

TEST_F(RunStoreTest, ADamagedStoreIsSetAsideAndMadeAnew) {
  ASSERT_TRUE(open().put(record_of("/a")).ok());
  corrupt();
  const arrow::Status damaged = RunStore::open(path_).status();
  EXPECT_TRUE(damaged.IsInvalid());
  EXPECT_THAT(damaged.message(), AllOf(HasSubstr(path_), HasSubstr("paceline index")));
  EXPECT_TRUE(RunStore::open_for_reading(path_).status().IsInvalid());
  EXPECT_EQ(set_run_store_aside(path_).ValueOrDie(), path_ + ".damaged");
  EXPECT_THAT(open().list().ValueOrDie(), IsEmpty());
  EXPECT_EQ(set_run_store_aside(path_).ValueOrDie(), path_ + ".damaged_2");
}

TEST_F(RunStoreTest, AStoreOfALaterVersionIsLeftAlone) {
  ASSERT_TRUE(open().put(record_of("/a")).ok());
  sqlite3* later = nullptr;
  ASSERT_EQ(::sqlite3_open(path_.c_str(), &later), SQLITE_OK);
  ASSERT_EQ(::sqlite3_exec(later, "PRAGMA user_version = 77", nullptr, nullptr, nullptr), SQLITE_OK);
  ::sqlite3_close(later);
  for (const arrow::Status& status : {RunStore::open(path_).status(), RunStore::open_for_reading(path_).status()}) {
    EXPECT_TRUE(status.IsInvalid());
    EXPECT_THAT(status.message(), AllOf(HasSubstr("version 77"), HasSubstr("paceline index")));
  }
}

TEST_F(RunStoreTest, AStoreOfAnEarlierVersionIsBroughtUpToDateByReading) {
  ASSERT_TRUE(open().put(record_of("/a")).ok());
  sqlite3* earlier = nullptr;
  ASSERT_EQ(::sqlite3_open(path_.c_str(), &earlier), SQLITE_OK);
  const char* back =
      "ALTER TABLE checkpoints DROP COLUMN status; ALTER TABLE runs DROP COLUMN metrics_text; "
      "DROP INDEX runs_by_opened; PRAGMA user_version = 1";
  ASSERT_EQ(::sqlite3_exec(earlier, back, nullptr, nullptr, nullptr), SQLITE_OK);
  ::sqlite3_close(earlier);
  const RunStore store = RunStore::open_for_reading(path_).ValueOrDie();
  EXPECT_EQ(store.find("/a").ValueOrDie().value().checkpoints.at(0).status, CheckpointStatus::committed);
  std::string shown;
  const arrow::Status visited = store.visit(RunStore::Metrics::text, [&shown](const RunRow&, std::string metrics) {
    shown = std::move(metrics);
    return true;
  });
  ASSERT_TRUE(visited.ok()) << visited.ToString();
  EXPECT_EQ(shown, "eval/top1 0.5, loss nan") << "of a run that an earlier version wrote";
}

TEST_F(RunStoreTest, AStoreThatIsNotThereIsNotMadeByReading) {
  EXPECT_TRUE(RunStore::open_for_reading(path_).status().IsIOError());
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(RunStoreTest, AReadOnlyFolderCanBeRead) {
  if (::geteuid() == 0) GTEST_SKIP() << "nothing is read-only for root";
  ASSERT_TRUE(open().put(record_of("/a")).ok());
  ::chmod(path_.c_str(), 0400);
  ::chmod((folder_ / "state").c_str(), 0500);
  EXPECT_THAT(RunStore::open_for_reading(path_).ValueOrDie().list().ValueOrDie(), SizeIs(1));
  ::chmod((folder_ / "state").c_str(), 0700);
}

}  // namespace
}  // namespace paceline::track
