// Checkpoints that are brought away while training goes on, and validated on the side: whole runs.
#include "paceline/track/metrics_history.h"
#include "paceline/train/result.h"
#include "tests/robustness/robustness_fixture.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class UploadRuns : public Robustness {};

TEST_F(UploadRuns, EveryModeInAnyMixKeepsTheOrderOfReports) {
  for (const std::string workers : {"2", "0"}) {
    SCOPED_TRACE(workers + " workers");
    auto driver = start("mixed_uploads", {{"WORKERS", workers}}, "run_" + workers);
    ASSERT_EQ(driver.wait(), 0) << driver.output();
    const std::string folder = storage_ / ("run_" + workers);
    const auto published = checkpoint::Store(folder).list().ValueOrDie();
    ASSERT_EQ(published.size(), 12u);
    EXPECT_EQ(published[3].name, "mine_0");
    EXPECT_EQ(published.back().name, "mine_2");
    EXPECT_TRUE(std::filesystem::exists(published[3].path + "/rank_0.txt"));
    EXPECT_EQ(std::filesystem::exists(published[3].path + "/rank_1.txt"), workers == "2");
    int64_t last = 0;
    for (const auto& row : track::read_history(folder).ValueOrDie()) {
      EXPECT_GE(row.report, last) << "a report came before an earlier one";
      last = row.report;
    }
    EXPECT_EQ(last, 15);
    expect_clean(driver, folder);
  }
}

TEST_F(UploadRuns, AFailedUploadFailsTheAttemptWithItsCause) {
  auto driver = start("failing_upload");
  EXPECT_EQ(driver.wait(), 1);
  EXPECT_THAT(driver.output(), AllOf(HasSubstr("rank 0"), HasSubstr("the checkpoint of report 1 could not be uploaded"),
                                     HasSubstr("quota exceeded"), HasSubstr("report_loops.cpp")));
  expect_clean(driver);
}

TEST_F(UploadRuns, ValidationsMergeFailAndTimeOutWithoutTouchingTraining) {
  auto driver = start("validated");
  ASSERT_EQ(driver.wait(), 0) << driver.output();
  // committed 0, pending 1, validated 2, timeout 3, failed 4
  EXPECT_THAT(driver.output(), HasSubstr("return value [[1,2.5,2],[2,2.5,2],[3,0.0,4],[4,0.0,3]]"));
  EXPECT_THAT(controller_log(), AllOf(HasSubstr("was killed by SIGKILL"), HasSubstr("has used up its 0.5 s")));
  EXPECT_EQ(Result::from_path(folder()).best_checkpoints.front().second.get<double>("bias"), 2.5);
  expect_clean(driver);
}

TEST_F(UploadRuns, InTheCallingProcessAValidationIsACall) {
  auto driver = start("validated", {{"WORKERS", "0"}, {"IN_PROCESS", "1"}});
  ASSERT_EQ(driver.wait(), 0) << driver.output();
  EXPECT_THAT(driver.output(), HasSubstr("return value [[1,2.5,2],[2,2.5,2],[3,0.0,4],[4,2.5,2]]"));
  EXPECT_THAT(controller_log(), HasSubstr("std::runtime_error: no data"));
}

}  // namespace
}  // namespace paceline
