#include "paceline/run/worker_logs.h"

#include <gmock/gmock.h>

#include "paceline/testing/temporary_folder.h"

namespace paceline::run {
namespace {

using ::testing::ElementsAre;

TEST(WorkerLogs, TheQuotaIsDividedIntoFiles) {
  const LogLimit usual = log_limit({});
  EXPECT_EQ(usual.file_bytes, 64'000'000);
  EXPECT_EQ(usual.files, 16);
  const LogLimit small = log_limit({.log_quota_mb = 0.5});
  EXPECT_EQ(small.file_bytes, 500'000);
  EXPECT_EQ(small.files, 1);
  EXPECT_EQ(log_limit({.log_quota_mb = 10, .log_file_mb = 3}).files, 3);
  EXPECT_GT(log_limit({.log_quota_mb = 1e300, .log_file_mb = 1e-300}).files, 1);
}

TEST(WorkerLogs, ThoseOfEarlierAttemptsGoOldestFirst) {
  const testing::TemporaryFolder run;
  const std::string hundred(100, 'x');
  for (const char* name : {"worker_1.log", "worker_2.log", "worker_2.log.1", "worker_10.log", "worker_11.log",
                           "controller.log", "worker_x.log", "worker_3.txt"}) {
    testing::write_file(run / (std::string("logs/") + name), hundred);
  }
  ASSERT_TRUE(trim_worker_logs(run.path(), WorkerId{11}, 400).ok());
  EXPECT_EQ(testing::names_in(run / "logs").size(), 8u);
  ASSERT_TRUE(trim_worker_logs(run.path(), WorkerId{11}, 150).ok());
  EXPECT_THAT(testing::names_in(run / "logs"),
              ElementsAre("controller.log", "worker_10.log", "worker_11.log", "worker_3.txt", "worker_x.log"));
}

}  // namespace
}  // namespace paceline::run
