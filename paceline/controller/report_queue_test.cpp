#include "paceline/controller/report_queue.h"

#include <gtest/gtest.h>

#include "paceline/testing/temporary_folder.h"

namespace paceline::controller {

using namespace policy;
namespace {

GroupReport group(int64_t report, std::vector<std::optional<Json>> metrics, bool files = false) {
  GroupReport group{.report = report, .complete = true, .metrics = std::move(metrics)};
  if (files) group.parts = {{0, "stage"}};
  return group;
}

class ReportQueueTest : public ::testing::Test {
 protected:
  std::vector<int64_t> write() {
    std::vector<int64_t> numbers;
    for (const auto& entry : log_.write().ValueOrDie()) numbers.push_back(entry.group.report);
    return numbers;
  }
  std::vector<track::HistoryRow> rows() const { return track::read_history(folder_.path()).ValueOrDie(); }

  paceline::testing::TemporaryFolder folder_;
  ReportQueue log_{track::HistoryWriter::open(folder_.path()).ValueOrDie()};
};

TEST_F(ReportQueueTest, StoresWhatEachRankMadeAndWhatCameOfIt) {
  GroupReport both = group(1, {Json{{"x", 1}}, Json{{"x", 3}}});
  both.reduced = {Json{{"x", 2}}, Json{{"x", 2}}};
  log_.add(std::move(both), {1}, from_seconds(10));
  log_.add(group(2, {Json{{"x", 5}}, Json{{"x", 7}}}), {1}, from_seconds(11));
  EXPECT_EQ(write(), (std::vector<int64_t>{1, 2}));
  ASSERT_TRUE(log_.flush().ok());
  EXPECT_EQ(rows()[0].metrics["x"], 1);
  EXPECT_EQ(rows()[1].metrics["x"], 3);
  EXPECT_EQ(track::shown_metrics(rows()[0])["x"], 2);
  EXPECT_EQ(track::shown_metrics(rows()[2])["x"], 5);
}

TEST_F(ReportQueueTest, ReportsWaitForAnEarlierCheckpoint) {
  log_.add(group(1, {Json{{"x", 1}}}), {1}, from_seconds(10));
  log_.add(group(2, {Json{{"x", 2}}}, true), {1}, from_seconds(11));
  log_.add(group(3, {Json{{"x", 3}}}), {1}, from_seconds(12));
  EXPECT_EQ(write(), (std::vector<int64_t>{1}));
  ASSERT_NE(log_.find(2), nullptr);
  EXPECT_EQ(log_.find(3), nullptr) << "it has no files";
  log_.settle(2, "checkpoint_000002");
  EXPECT_EQ(write(), (std::vector<int64_t>{2, 3}));
  ASSERT_TRUE(log_.flush().ok());
  EXPECT_EQ(rows()[1].checkpoint, "checkpoint_000002");
  EXPECT_EQ(rows()[2].time, 12);
}

TEST_F(ReportQueueTest, ACheckpointIsOnDiskWithItsRow) {
  log_.add(group(1, {Json{{"x", 1}}}, true), {1}, from_seconds(10));
  log_.settle(1, "checkpoint_000001");
  write();
  EXPECT_EQ(rows().size(), 1u);
  EXPECT_FALSE(log_.unflushed_since());
}

TEST_F(ReportQueueTest, RanksThatDidNotGetSoFarHaveNoRow) {
  log_.add(group(1, {std::nullopt, Json{{"x", 1}}}), {2}, from_seconds(10));
  write();
  EXPECT_EQ(log_.unflushed_since(), from_seconds(10));
  ASSERT_TRUE(log_.flush().ok());
  ASSERT_EQ(rows().size(), 1u);
  EXPECT_EQ(rows()[0].rank, 1);
  EXPECT_EQ(rows()[0].attempt, 2);
}

TEST_F(ReportQueueTest, AtTheEndNothingWaits) {
  log_.add(group(1, {Json{{"x", 1}}}, true), {1}, from_seconds(10));
  log_.settle_all();
  EXPECT_EQ(write(), (std::vector<int64_t>{1}));
}

}  // namespace
}  // namespace paceline::controller
