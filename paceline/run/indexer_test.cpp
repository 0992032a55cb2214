#include "paceline/run/indexer.h"

#include <gmock/gmock.h>
#include <sqlite3.h>

#include <future>

#include "paceline/policy/decide.h"
#include "paceline/run/journal.h"
#include "paceline/testing/temporary_folder.h"
#include "paceline/track/run_store.h"

namespace paceline::run {

using namespace policy;
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunIndexerTest : public ::testing::Test {
 protected:
  RunIndexerTest() { append(RunOpened{.epoch = {1}, .name = "mnist", .host = "here", .pid = 7}); }

  void append(const Event& event) {
    const Actions actions = decide(state_, event, from_seconds(100));
    ASSERT_TRUE(journal_.append(event, state_, actions, from_seconds(100)).ok());
  }
  RunIndexer::Warn warn() {
    return [this](const std::string& text) { warnings_.push_back(text); };
  }
  // Records the run once.
  void record() {
    RunIndexer recorder(folder_ / "run", store_, warn());
    recorder.notice();
    recorder.finish(std::chrono::minutes(1));
  }
  std::string state_in_store() {
    const auto found = track::RunStore::open_for_reading(store_).ValueOrDie().find(folder_ / "run").ValueOrDie();
    return found ? found->run.state : "";
  }

  testing::TemporaryFolder folder_;
  std::string store_ = track::run_store_path(folder_ / "state");
  Journal journal_ = [this] {
    std::filesystem::create_directory(folder_ / "run");
    return Journal::open(folder_ / "run").ValueOrDie();
  }();
  RunState state_;
  std::vector<std::string> warnings_;
};

TEST_F(RunIndexerTest, WritesWhatTheFolderTellsAtTheLatestAtTheEnd) {
  RunIndexer recorder(folder_ / "run", store_, warn());
  recorder.notice();
  append(StopRequested{"enough"});
  recorder.notice();
  recorder.finish(std::chrono::minutes(1));
  EXPECT_THAT(warnings_, IsEmpty());
  EXPECT_EQ(state_in_store(), "aborted");
  const auto found = track::RunStore::open_for_reading(store_).ValueOrDie().find(folder_ / "run").ValueOrDie();
  EXPECT_EQ(found->events.size(), 2u);
  EXPECT_EQ(found->run.host, "here");
}

TEST_F(RunIndexerTest, ADamagedStoreCostsOneWarningAndStaysAsItIs) {
  testing::write_file(store_, std::string(10'000, 'x'));
  record();
  EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr(store_), HasSubstr("paceline index"))));
  EXPECT_EQ(std::filesystem::file_size(store_), 10'000u);
}

TEST_F(RunIndexerTest, AStoreThatCannotBeMadeCostsOneWarning) {
  testing::write_file(folder_ / "state", "a file where the folder should be");
  RunIndexer recorder(folder_ / "run", store_, warn());
  recorder.notice();
  recorder.notice();
  recorder.finish(std::chrono::minutes(1));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("state")));
}

TEST_F(RunIndexerTest, AHeldLockDelaysNobody) {
  record();
  sqlite3* other = nullptr;
  ASSERT_EQ(::sqlite3_open(store_.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(::sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  append(StopRequested{"enough"});
  {
    RunIndexer recorder(folder_ / "run", store_, warn());
    recorder.notice();
    recorder.finish(std::chrono::milliseconds(1));  // the lock is waited for ten seconds
  }
  EXPECT_THAT(warnings_, IsEmpty());
  ::sqlite3_close(other);
  record();
  EXPECT_EQ(state_in_store(), "aborted");
}

TEST_F(RunIndexerTest, ARunThatDidNotBeginIsNotRecorded) {
  RunIndexer recorder(folder_ / "none", store_, warn());
  recorder.finish(std::chrono::minutes(1));
  EXPECT_THAT(warnings_, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(store_));
}

TEST_F(RunIndexerTest, WithoutAStoreItDoesNothing) {
  RunIndexer recorder(folder_ / "run", "", warn());
  recorder.notice();
  recorder.finish();
  EXPECT_THAT(warnings_, IsEmpty());
}

}  // namespace
}  // namespace paceline::run
