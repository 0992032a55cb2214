// The user's run store under real drivers: many at once, killed ones, and a store that cannot be used.
#include "paceline/track/run_store.h"

#include <sqlite3.h>

#include <fstream>

#include "paceline/train/result.h"
#include "tests/robustness/robustness_fixture.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class RunStoreUnderDrivers : public Robustness {
 protected:
  testing::DriverProcess start_run(const std::string& scenario, const std::string& run) {
    return start(scenario, {{"PACELINE_STATE_DIR", state_.path()}}, run);
  }
  std::string store_path() const { return track::run_store_path(state_.path()); }
  std::optional<track::RunRecord> stored(const std::string& run) const {
    return track::RunStore::open_for_reading(store_path()).ValueOrDie().find(storage_ / run).ValueOrDie();
  }

  testing::TemporaryFolder state_;
};

TEST_F(RunStoreUnderDrivers, TwoAtOnceAreBothInIt) {
  auto first = start_run("well", "first");
  auto second = start_run("well", "second");
  EXPECT_EQ(first.wait(), 0) << first.output();
  EXPECT_EQ(second.wait(), 0) << second.output();
  for (const char* run : {"first", "second"}) {
    const auto record = stored(run);
    ASSERT_TRUE(record) << run;
    EXPECT_EQ(record->run.state, "finished");
    EXPECT_EQ(record->run.world_size, 2);
    EXPECT_EQ(record->checkpoints.size(), 5u);
    EXPECT_GT(record->metrics.at("loss").series.count(), 0);
  }
}

TEST_F(RunStoreUnderDrivers, ADamagedOneCostsOneWarning) {
  testing::write_file(store_path(), std::string(50'000, 'x'));
  auto driver = start_run("well", "run");
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  const std::string& output = driver.output();
  const size_t warning = output.find("the run store cannot be used");
  EXPECT_NE(warning, std::string::npos) << output;
  EXPECT_EQ(output.find("the run store cannot be used", warning + 1), std::string::npos) << output;
  EXPECT_EQ(checkpoints().size(), 5u);
  expect_clean(driver);
}

TEST_F(RunStoreUnderDrivers, ALockedOneStopsNoRun) {
  ASSERT_TRUE(track::RunStore::open(store_path()).ok());
  sqlite3* other = nullptr;
  ASSERT_EQ(::sqlite3_open(store_path().c_str(), &other), SQLITE_OK);
  ASSERT_EQ(::sqlite3_exec(other, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
  auto driver = start_run("well", "run");
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  ::sqlite3_close(other);
  EXPECT_EQ(checkpoints().size(), 5u);
  expect_clean(driver);
}

TEST_F(RunStoreUnderDrivers, OneThatCannotBeMadeStopsNoRun) {
  std::filesystem::remove(state_.path());
  std::ofstream(state_.path()) << "a file where the folder should be";
  auto driver = start_run("well", "run");
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("the run store cannot be used"), HasSubstr("state finished")));
  std::filesystem::remove(state_.path());
}

TEST_F(RunStoreUnderDrivers, ARunFolderFromAnotherMachineIsEnough) {
  auto driver = start_run("well", "run");
  EXPECT_EQ(driver.wait(), 0) << driver.output();
  const testing::TemporaryFolder elsewhere;
  std::filesystem::copy(storage_ / "run", elsewhere / "run", std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(storage_ / "run");
  const Result result = Result::from_path(elsewhere / "run");
  EXPECT_EQ(result.state, "finished");
  ASSERT_TRUE(result.checkpoint);
  EXPECT_THAT(result.checkpoint->path(), HasSubstr(elsewhere.path()));
  EXPECT_EQ(result.best_checkpoints.size(), 5u);
}

}  // namespace
}  // namespace paceline
